// What an engine keeps beside the states every engine keeps: its loss, its
// buckets, its copies on the host. Rules of legality are engine.h's.
#pragma once

#include "strategy/ledger.h"

namespace ztplan {

struct EngineMemory {
  LossKernel loss;
  /// Phase in which the loss is last held. Measured: torchtitan, Llama 3 8B
  /// with context parallelism and 70B with tensor 8, whose peaks are the loss
  /// and the backward of a layer together.
  Phase loss_until;
  /// Modules in plain tensor operations: `unfused_activations` is added.
  bool unfused;
  /// ZeRO 3 shards are fp32 and serve as master weights: no 16-bit shards.
  bool shards_are_master;
  /// ZeRO 3 under a pipeline keeps the weights and gradients of the whole
  /// stage gathered until its last micro-batch.
  bool keeps_stage_gathered;
  /// Gradient buckets held while they are reduced, in 16-bit numbers: at ZeRO
  /// 3, and below it. None where gradients are reduced in place.
  int buckets_sharded;
  int buckets;
  /// Bytes per owned parameter of gradients on the host when the optimizer is
  /// there; 0 when they are sent in pieces.
  int host_gradient_bytes;
  /// Gradients of ZeRO 2 and 3 then have no copy on the device.
  bool gradients_leave_device;
  /// A 16-bit gradient stays beside the fp32 one it is added to.
  bool narrow_gradients;
  /// What the allocator loses to fragmentation: one part in so many of the
  /// tensors that come and go.
  std::int64_t slack_over;
  const char* source;
};

// What the allocator loses of tensors that come and go: eager runs 3 to 10 %,
// compiled or fused ones 2 to 5 %.
constexpr std::int64_t kFusedSlack = 20;
constexpr std::int64_t kEagerSlack = 10;

}  // namespace ztplan
