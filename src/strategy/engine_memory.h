// What an engine keeps beside the states every engine keeps: its loss, its
// buckets, its copies on the host. Rules of legality are engine.h's.
#pragma once

#include "strategy/ledger.h"

namespace ztplan {

// What the allocator loses of tensors that come and go: eager runs 3 to 10 %,
// compiled or fused ones 2 to 5 %.
constexpr std::int64_t kFusedSlack = 20;
constexpr std::int64_t kEagerSlack = 10;

/// How what leaves the device lies in page-locked memory: not at all, in a few
/// flat blocks, in one block a parameter.
enum class Pinned { nothing, flat, parameters };

/// An engine states what differs.
struct EngineMemory {
  LossKernel loss;
  /// Phase in which the loss is last held. Measured: torchtitan, Llama 3 8B
  /// with context parallelism and 70B with tensor 8, whose peaks are the loss
  /// and the backward of a layer together.
  Phase loss_until = Phase::loss;
  /// Modules in plain tensor operations: `unfused_activations` is added.
  bool unfused = false;
  /// ZeRO 3 shards are fp32 and serve as master weights: no 16-bit shards.
  bool shards_are_master = false;
  /// ZeRO 2 and 3 under a pipeline gather the weights of the whole stage for
  /// its first micro-batch, keep its gradients whole and reduce them after its
  /// last: pytorch/torchtitan torchtitan/distributed/fsdp.py
  /// (reshard_after_forward_policy), torch/distributed/pipelining/stage.py.
  bool keeps_stage_gathered = false;
  /// A pipeline keeps the outputs of its stages, and inputs beside the copies
  /// that are computed with, until their backward.
  bool keeps_boundaries = false;
  /// Gradient buckets held while they are reduced, in 16-bit numbers: at ZeRO
  /// 3; below it; and below it when they are reduced beside backward. None
  /// where gradients are reduced in place.
  int buckets_sharded = 0;
  int buckets = 0;
  int buckets_beside = 0;
  /// A bucket has its full size however small the model: DeepSpeed,
  /// runtime/zero/stage_1_and_2.py (torch.empty of reduce_bucket_size).
  bool allocates_whole_bucket = false;
  /// The ZeRO stage from which reduction runs beside backward by default, and
  /// the one up to which sharded gradients are summed on every rank.
  int overlaps_from = 0;
  int all_reduces_through = 0;
  /// Gradients accumulate in fp32 unless told otherwise; else as computed.
  bool wide_gradients = true;
  /// The ZeRO stage up to which gradients are allocated as backward computes
  /// them and freed by the step; 0: their buffer is permanent.
  int frees_gradients_through = 0;
  /// Gradients of ZeRO 3 lie in the shards of the 16-bit weights, which the
  /// optimizer writes anew, where a step has one micro-batch.
  bool gradients_replace_weights = false;
  /// ZeRO 3 cuts quantized weights too.
  bool shards_quantized = true;
  /// Under ZeRO 3, parameters of at most so many elements stay whole on every
  /// rank, beside their shards.
  std::int64_t persistent = 0;
  /// Elements that ZeRO 3 gathers ahead of the module at work.
  std::int64_t prefetch = 0;
  /// Bytes per owned parameter of gradients on the host when the optimizer is
  /// there; 0 when they are sent in pieces.
  int host_gradient_bytes = 4;
  Pinned pinned = Pinned::nothing;
  /// Gradients of ZeRO 2 and 3 then have no copy on the device.
  bool gradients_leave_device = false;
  /// ZeRO 2 reduces each micro-batch into a shard of its own, added to the one
  /// that is kept when its backward is over.
  bool adds_shards = false;
  /// Gradients are copied into flat tensors when they are reduced and stepped
  /// with, which fit in no block that activations leave behind: the allocator
  /// reserves both.
  bool flattens = false;
  /// Pipelines have groups of their own beside those of the model.
  bool groups_stages = false;
  /// A 16-bit gradient stays beside the fp32 one it is added to.
  bool narrow_gradients = false;
  /// What the allocator loses to fragmentation: one part in so many of the
  /// tensors that come and go.
  std::int64_t slack_over = kFusedSlack;
  const char* source;
};

/// Bytes a parameter takes on a device that owns it.
struct StateBytes {
  std::int64_t parameter = 0;
  std::int64_t gradient = 0;
  std::int64_t optimizer = 0;  // with the master weights
  bool has_master = false;     // fp32 weights beside those in use
};
/// Adam in mixed precision: 2, 2 or 4, and 12. Weights stored in fp32, or in
/// the dtype of a pure 16-bit run, are their own master.
StateBytes state_bytes(const Workload& workload, const EngineMemory& keeps,
                       const Strategy& strategy);

/// The dtype gradients accumulate in when nobody says.
Precision default_gradient(const EngineMemory& keeps,
                           const Framework& framework, Precision precision);

/// The loss that is computed: the user's, the version's, the engine's.
inline LossKernel loss_kernel(const EngineMemory& keeps,
                              const Workload& workload) {
  return workload.loss.value_or(workload.framework.loss.value_or(keeps.loss));
}

/// Phase in which the loss is last held: a frozen output matrix has no gradient
/// to wait for.
inline Phase loss_until(const EngineMemory& keeps, const Workload& workload) {
  return workload.adapters.any() ? Phase::loss : keeps.loss_until;
}

}  // namespace ztplan
