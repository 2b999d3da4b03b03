// DeepSpeed 0.19. ZeRO 0 is its data parallelism, a shard group under ZeRO 3 is
// MiCS; tensor is AutoTP, context with Ulysses its sequence parallelism, a
// pipeline its PipelineModule.
#include "strategy/engine_memory.h"
#include "strategy/engines/engines.h"
#include "strategy/engines/rules.h"

namespace ztplan {
namespace {

// PipelineModule and AutoTP leave the vocabulary as it is.
constexpr int kVocabMultiple = 1;
// reduce_bucket_size. Source: deepspeed/runtime/zero/config.py.
constexpr std::int64_t kBucketElements = 500'000'000;

// Below stage 3: one reduce bucket, two with overlap_comm (measured on
// ViT-gigantic, deepspeedai/DeepSpeed#1302). Stage 3: one bucket, always held,
// and its copy; stage3_prefetch_bucket_size ahead. On the host: an fp32
// gradient and its pinned 16-bit source. Models are mostly those of
// transformers. bf16_optimizer.py keeps a bf16 gradient beside the fp32 one.
constexpr EngineMemory kMemory = {
    .loss = LossKernel::eager,
    .loss_until = Phase::loss,
    .unfused = true,
    .shards_are_master = false,
    .keeps_stage_gathered = false,
    .buckets_sharded = 2,
    .buckets = 1,
    .buckets_beside = 2,
    .overlaps_from = 3,
    .all_reduces_through = 2,
    .wide_gradients = false,
    .frees_gradients = true,
    .shards_quantized = false,
    .prefetch = 50'000'000,
    .host_gradient_bytes = 6,
    .gradients_leave_device = true,
    .narrow_gradients = true,
    .slack_over = kEagerSlack,
    .source = "DeepSpeed: runtime/zero, runtime/bf16_optimizer.py"};

constexpr Engine kEngine = {"deepspeed",    "0.19.6",        {},
                            kVocabMultiple, kBucketElements, &kMemory};

}  // namespace

const Engine& deepspeed_engine() { return kEngine; }

}  // namespace ztplan
