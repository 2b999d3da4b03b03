// Colossal-AI 0.5: HybridParallelPlugin, or GeminiPlugin for ZeRO 3.
#include "strategy/engine_memory.h"
#include "strategy/engines/engines.h"
#include "strategy/engines/rules.h"

namespace ztplan {
namespace {

// make_vocab_size_divisible_by. Source:
// colossalai/booster/plugin/hybrid_parallel_plugin.py.
constexpr int kVocabMultiple = 64;
// zero_bucket_size_in_m 12, of 1024 * 1024 elements; same source.
constexpr std::int64_t kBucketElements = 12 * 1024 * 1024;

constexpr EngineMemory kMemory = {
    .loss = LossKernel::eager,
    .loss_until = Phase::loss,
    .unfused = false,
    .shards_are_master = false,
    .keeps_stage_gathered = false,
    .buckets_sharded = 1,
    .buckets = 1,
    .buckets_beside = 2,
    .overlaps_from = 0,
    .all_reduces_through = 1,
    .wide_gradients = false,
    .frees_gradients = true,
    .shards_quantized = true,
    .prefetch = 0,
    .host_gradient_bytes = 4,
    .gradients_leave_device = false,
    .narrow_gradients = false,
    .slack_over = kEagerSlack,
    .source = "ColossalAI: zero/low_level/low_level_optim.py"};

constexpr Engine kEngine = {"colossalai",   "0.5.0",         {},
                            kVocabMultiple, kBucketElements, &kMemory};

}  // namespace

const Engine& colossalai_engine() { return kEngine; }

}  // namespace ztplan
