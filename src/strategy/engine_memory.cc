#include "strategy/engine_memory.h"

#include <array>

namespace ztplan {
namespace {

constexpr std::int64_t kFusedSlack = 20;
constexpr std::int64_t kEagerSlack = 10;

constexpr std::array<EngineMemory, 5> kEngines = {{
    // Two buckets: one is filled while the other is reduced. Gradients go to
    // the host, and weights come back, in pieces.
    {.engine = "native",
     .loss = LossKernel::vocab_parallel,
     .loss_until = Phase::loss,
     .unfused = false,
     .shards_are_master = false,
     .keeps_stage_gathered = false,
     .buckets_sharded = 2,
     .buckets = 2,
     .host_gradient_bytes = 0,
     .gradients_leave_device = false,
     .narrow_gradients = false,
     .slack_over = kFusedSlack,
     .source = "ztplan: double-buffered buckets"},
    // Gradients accumulate and are reduced in one buffer. The optimizer on the
    // host keeps an fp32 copy of weights and of gradients.
    {.engine = "megatron",
     .loss = LossKernel::vocab_parallel,
     .loss_until = Phase::loss,
     .unfused = false,
     .shards_are_master = false,
     .keeps_stage_gathered = false,
     .buckets_sharded = 0,
     .buckets = 0,
     .host_gradient_bytes = 4,
     .gradients_leave_device = false,
     .narrow_gradients = false,
     .slack_over = kFusedSlack,
     .source = "Megatron-LM: core/distributed/param_and_grad_buffer.py, "
               "core/optimizer/cpu_offloading"},
    // Below stage 3: two reduce buckets and the flattened copy of one. Stage 3:
    // one bucket, always held, and its copy. On the host: an fp32 gradient and
    // its pinned 16-bit source. Models are mostly those of transformers.
    // bf16_optimizer.py keeps a bf16 gradient beside the fp32 one.
    {.engine = "deepspeed",
     .loss = LossKernel::eager,
     .loss_until = Phase::loss,
     .unfused = true,
     .shards_are_master = false,
     .keeps_stage_gathered = false,
     .buckets_sharded = 2,
     .buckets = 3,
     .host_gradient_bytes = 6,
     .gradients_leave_device = true,
     .narrow_gradients = true,
     .slack_over = kEagerSlack,
     .source = "DeepSpeed: runtime/zero, runtime/bf16_optimizer.py"},
    // Reduce-scatter inputs are those of the layer being differentiated.
    {.engine = "fsdp",
     .loss = LossKernel::eager,
     .loss_until = Phase::backward,
     .unfused = false,
     .shards_are_master = true,
     .keeps_stage_gathered = true,
     .buckets_sharded = 0,
     .buckets = 0,
     .host_gradient_bytes = 4,
     .gradients_leave_device = true,
     .narrow_gradients = false,
     .slack_over = kFusedSlack,
     .source = "PyTorch: distributed/fsdp/_fully_shard/_fsdp_param_group.py, "
               "distributed/pipelining/stage.py"},
    {.engine = "colossalai",
     .loss = LossKernel::eager,
     .loss_until = Phase::loss,
     .unfused = false,
     .shards_are_master = false,
     .keeps_stage_gathered = false,
     .buckets_sharded = 1,
     .buckets = 1,
     .host_gradient_bytes = 4,
     .gradients_leave_device = false,
     .narrow_gradients = false,
     .slack_over = kEagerSlack,
     .source = "ColossalAI: zero/low_level/low_level_optim.py"},
}};

}  // namespace

const EngineMemory& engine_memory(std::string_view engine) {
  for (const EngineMemory& memory : kEngines) {
    if (memory.engine == engine) return memory;
  }
  return kEngines.front();
}

}  // namespace ztplan
