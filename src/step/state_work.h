// Works on model states rather than on tokens: gradient reduction, parameter
// gathers, the optimizer and what offload copies.
#pragma once

#include "step/segment.h"

namespace ztplan {

/// Offloaded states are stepped in slices so that copies run beside Adam, as
/// DeepSpeed's sub-groups do (runtime/zero/stage3.py, sub_group_size).
constexpr int kOffloadSlices = 8;

/// Reduces the gradients of one segment over its data-parallel ranks:
/// all-reduce under ZeRO 0, else reduce-scatter. `last` adds the sum over
/// replicas of the shard group, which is done once a step.
enum class Boundary { inner, last };
Recipe reduce_gradients(const StepParts& parts, const LayerShare& share,
                        Boundary boundary);

/// Gathers the 16-bit parameters of one segment from its ZeRO shards.
Recipe gather_parameters(const StepParts& parts, const LayerShare& share);

/// The activations, or their gradient, that cross a stage boundary.
Item boundary_send(const StepParts& parts);

/// Elements of a gradient bucket: the engine's least, or a million a
/// data-parallel rank. Source: Megatron-LM --ddp-bucket-size.
std::int64_t gradient_bucket(const Engine& engine, const Strategy& strategy);

/// Parameters whose optimizer states this device owns.
std::int64_t owned_parameters(const Strategy& strategy,
                              const LayerShare& share);

/// Adam on the device over the owned parameters, with the gradient norm.
Recipe step_optimizer(const StepParts& parts, std::int64_t owned);
/// Sum of squares over the owned gradients.
Recipe norm_gradients(const StepParts& parts, std::int64_t owned);
/// Its sum over every rank: one number.
Recipe reduce_norm(const StepParts& parts);

/// A copy of `bytes` of one device over `channel`.
Recipe copy(Channel channel, Bytes bytes);
/// Adam on the host over `owned` parameters.
Recipe step_on_host(std::int64_t owned);

/// Bytes of one parameter as it is gathered, as its gradient is reduced, and of
/// its optimizer states (master, momentum, variance).
Bytes parameter_bytes(const Workload& workload, std::int64_t count);
Bytes gradient_bytes(const Workload& workload, std::int64_t count);
Bytes state_bytes(const Workload& workload, std::int64_t count);

}  // namespace ztplan
