// PyTorch FSDP2 as torchtitan 0.2 and accelerate 1.15 drive it. ZeRO 3 reshards
// after forward, ZeRO 2 does not; a shard group is HSDP's.
#include "strategy/engine_memory.h"
#include "strategy/engines/engines.h"
#include "strategy/engines/rules.h"

namespace ztplan {
namespace {

constexpr int kVocabMultiple = 1;  // sharded by rows, unevenly where they must
// Gradients are reduced a wrapped layer at a time.
constexpr std::int64_t kBucketElements = 40'000'000;

// Reduce-scatter inputs are those of the layer being differentiated.
constexpr EngineMemory kMemory = {
    .loss = LossKernel::eager,
    .loss_until = Phase::backward,
    .unfused = false,
    .shards_are_master = true,
    .keeps_stage_gathered = true,
    .buckets_sharded = 0,
    .buckets = 0,
    .buckets_beside = 0,
    .overlaps_from = 0,
    .all_reduces_through = 0,
    .wide_gradients = true,
    .frees_gradients = true,
    .shards_quantized = true,
    .prefetch = 0,
    .host_gradient_bytes = 4,
    .gradients_leave_device = true,
    .narrow_gradients = false,
    .slack_over = kFusedSlack,
    .source =
        "PyTorch: distributed/fsdp/_fully_shard/_fsdp_param_group.py, "
        "distributed/pipelining/stage.py"};

constexpr Engine kEngine = {
    "fsdp",  "torch 2.9, torchtitan 0.2.2", {}, kVocabMultiple, kBucketElements,
    &kMemory};

}  // namespace

const Engine& fsdp_engine() { return kEngine; }

}  // namespace ztplan
