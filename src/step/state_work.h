// Works on model states rather than on tokens: gradient reduction, parameter
// gathers, the optimizer and what offload copies.
#pragma once

#include <span>

#include "step/segment.h"
#include "strategy/native_stage.h"

namespace ztplan {

/// Reduces the gradients of one segment over its data-parallel ranks:
/// all-reduce under ZeRO 0, else reduce-scatter. `last` adds the sum over
/// replicas of the shard group, which is done once a step.
enum class Boundary { inner, last };
Recipe reduce_gradients(const StepParts& parts, const Segment& segment,
                        Boundary boundary);

/// Gathers the parameters of one segment, as they are stored, from their ZeRO
/// shards.
Recipe gather_parameters(const StepParts& parts, const Segment& segment);
/// What of a stage is gathered by a call of its own once the optimizer stepped.
std::vector<LayerShare> updated_together(const StepParts& parts,
                                         const StageShape& stage);
/// Gathers the trained ones, a call for each of `calls`.
Recipe gather_updates(const StepParts& parts,
                      std::span<const LayerShare> calls);

/// The activations, or their gradient, that cross a stage boundary.
Recipe boundary_send(const StepParts& parts);

/// Elements of a gradient bucket: the engine's least, or a million a
/// data-parallel rank. Source: Megatron-LM --ddp-bucket-size.
std::int64_t gradient_bucket(const Engine& engine, const Strategy& strategy);

/// Pieces in which the last backward of the first stage reduces the gradients
/// of `stage`, all that it holds: bucket by bucket, since nothing hides them.
/// Source: Megatron-LM core/distributed/distributed_data_parallel.py (buckets
/// on pipeline rank 0 only).
int gradient_pieces(const StepParts& parts, const LayerShare& stage);
/// Whether each micro-batch reduces its gradients, not the last alone.
bool reduces_every_pass(const StepParts& parts);
/// Whether gradients are reduced beside backward, not after it.
bool reduces_beside(const StepParts& parts);

/// Parameters whose optimizer states this device owns, and those whose weights
/// it owns under ZeRO 3.
std::int64_t owned_parameters(const Strategy& strategy,
                              const LayerShare& share);
std::int64_t owned_weights(const Strategy& strategy, const LayerShare& share);

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

/// Bytes of `count` parameters as they are computed with, as they are stored
/// (quantized where they are frozen so), of their gradients, and of their
/// optimizer states with the master weights.
Bytes parameter_bytes(const Workload& workload, std::int64_t count);
Bytes stored_bytes(const Workload& workload, std::int64_t count);
Bytes gradient_bytes(const Workload& workload, std::int64_t count);
Bytes optimizer_bytes(const StepParts& parts, std::int64_t count);

}  // namespace ztplan
