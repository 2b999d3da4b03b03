#include "step/state_work.h"

#include <algorithm>

#include "step/work_writer.h"
#include "strategy/engine_memory.h"

namespace ztplan {
namespace {

constexpr std::int64_t kBucketPerRank = 1'000'000;
constexpr int kSmallestMessage = 4;  // one fp32 number
constexpr int kSums = 24;            // three numbers in double

int weight_width(const Workload& workload) {
  return workload.precision == Precision::fp32 ? 4 : 2;
}

// Of the place of a gradient that `topk` sends.
constexpr std::int64_t kIndexBytes = 4;
// Gradients a byte holds: signs, and 4-bit blocks (arXiv 2306.10209, 3.3).
constexpr std::int64_t kSignsInByte = 8;
constexpr std::int64_t kQuartersInByte = 2;

void add(Recipe& recipe, CollectiveOp op, const Group& group, Bytes bytes,
         Rings rings) {
  if (group.size == 1 || bytes.value == 0) return;
  recipe.items.push_back(
      {TimeTerm::data_comm, 1, Collective{op, group, bytes, rings}});
}

/// Ranks that hold equal weights: all of them, those that share their states,
/// and those that hold equal shares.
struct Holders {
  Group whole, shards, replicas;
};

Holders dense_holders(const Strategy& s) {
  return {gradient_group(s), shard_group(s), replica_group(s)};
}

Holders expert_holders(const Strategy& s) {
  const Group whole = expert_gradient_group(s);
  const int shards = static_cast<int>(expert_zero_group(s));
  return {whole,
          {shards, whole.stride},
          {whole.size / shards, whole.stride * shards}};
}

/// Bytes of `count` gradients as they travel.
Bytes travelling(const StepParts& parts, std::int64_t count) {
  const Strategy& s = parts.strategy;
  switch (s.tuning.compression) {
    case Compression::one_bit:
      return {divide_up(count, kSignsInByte)};
    case Compression::quantized:
      return {divide_up(count, kQuartersInByte)};
    case Compression::topk:
    case Compression::none:
      break;
  }
  return travelling_bytes(parts.setting.workload, s, count);
}

/// Every rank sends its largest gradients and their places to every other.
Bytes gathered_topk(const StepParts& parts, const Group& group,
                    std::int64_t count) {
  const std::int64_t sent = topk_count(parts.strategy, count);
  const Bytes payload =
      travelling_bytes(parts.setting.workload, parts.strategy, sent) +
      Bytes{kIndexBytes * sent};
  return payload * group.size;
}

Rings gradient_rings(const StepParts& parts) {
  const Framework& framework = parts.setting.workload.framework;
  if (framework.one_nic) return Rings::one_nic;
  return framework.rings_only ? Rings::only : Rings::planned;
}

/// Elements of a flat buffer of `count`, cut into equal shards.
std::int64_t padded(const StepParts& parts, const Holders& holders,
                    std::int64_t count) {
  if (!parts.engine.executed) return count;
  return padded_shard(count, holders.shards.size) * holders.shards.size;
}

void reduce(Recipe& recipe, const StepParts& parts, const Holders& holders,
            std::int64_t count, Boundary boundary) {
  const Strategy& s = parts.strategy;
  const Rings rings = gradient_rings(parts);
  if (count == 0) return;
  if (s.tuning.compression == Compression::topk)
    return add(
        recipe, CollectiveOp::all_gather, holders.whole,
        gathered_topk(parts, holders.whole, padded(parts, holders, count)),
        rings);
  const Bytes bytes = travelling(parts, padded(parts, holders, count));
  if (s.zero == 0)
    return add(recipe, CollectiveOp::all_reduce, holders.whole, bytes, rings);
  const bool whole = s.zero <= parts.engine.memory->all_reduces_through;
  add(recipe, whole ? CollectiveOp::all_reduce : CollectiveOp::reduce_scatter,
      holders.shards, bytes, rings);
  if (boundary == Boundary::last)
    add(recipe, CollectiveOp::all_reduce, holders.replicas,
        shard(bytes, holders.shards.size), rings);
}

/// What one call moves: a flat buffer, where the executor has several, or all.
std::vector<FlatShare> moved_together(const StepParts& parts,
                                      const Segment& segment) {
  if (!parts.engine.executed || parts.strategy.zero == 0 ||
      segment.flats.empty())
    return {{segment.share, 0, false}};
  std::vector<FlatShare> flats;
  for (const FlatShare& flat : segment.flats) {
    const bool elsewhere = flat.borrowed && parts.strategy.zero < 2;
    if (!elsewhere) flats.push_back(flat);
  }
  return flats;
}

/// Of what tensor ranks hold alike, each has the gradients of its part of the
/// sequence. Source: Megatron-LM core/distributed/finalize_model_grads.py,
/// _allreduce_non_tensor_model_parallel_grads.
void sum_over_tensor(Recipe& recipe, const StepParts& parts,
                     const Segment& segment) {
  const Strategy& s = parts.strategy;
  if (!parts.engine.executed || !s.sequence_parallel || s.tensor == 1) return;
  for (const FlatShare& flat : segment.flats)
    if (flat.whole > 0)
      recipe.items.push_back(
          {TimeTerm::tensor_comm, 1,
           Collective{CollectiveOp::all_reduce, tensor_group(s),
                      gradient_bytes(parts.setting.workload, flat.whole)}});
}

void gather(Recipe& recipe, const StepParts& parts, const Holders& holders,
            Bytes bytes) {
  add(recipe, CollectiveOp::all_gather, holders.shards, bytes,
      gradient_rings(parts));
}

}  // namespace

Bytes parameter_bytes(const Workload& workload, std::int64_t count) {
  return {count * weight_width(workload)};
}

Bytes gradient_bytes(const Workload& workload, std::int64_t count) {
  return {count * bytes_of(workload.gradient)};
}

Bytes stored_bytes(const Workload& workload, std::int64_t count) {
  return workload.quantize == Quantize::none
             ? parameter_bytes(workload, count)
             : quantized_bytes(workload.quantize, count);
}

Bytes optimizer_bytes(const StepParts& parts, std::int64_t count) {
  return {count * state_bytes(parts.setting.workload, *parts.engine.memory,
                              parts.strategy)
                      .optimizer};
}

Recipe reduce_gradients(const StepParts& parts, const Segment& segment,
                        Boundary boundary) {
  const Strategy& s = parts.strategy;
  Recipe recipe;
  recipe.name = "reduce gradients";
  sum_over_tensor(recipe, parts, segment);
  for (const FlatShare& flat : moved_together(parts, segment)) {
    // Replicas sum what was borrowed with its owner's.
    const Boundary until = flat.borrowed ? Boundary::inner : boundary;
    reduce(recipe, parts, dense_holders(s), flat.share.trained_dense, until);
    reduce(recipe, parts, expert_holders(s), flat.share.trained_experts, until);
  }
  return recipe;
}

/// With qwZ, a byte a weight: arXiv 2306.10209, section 3.1.
Recipe gather_parameters(const StepParts& parts, const Segment& segment) {
  const Strategy& s = parts.strategy;
  const auto bytes = [&](const Holders& holders, std::int64_t count) {
    return s.tuning.quantized_weights
               ? Bytes{count}
               : stored_bytes(parts.setting.workload,
                              padded(parts, holders, count));
  };
  Recipe recipe;
  recipe.name = "gather parameters";
  for (const FlatShare& flat : moved_together(parts, segment)) {
    const LayerShare& share = flat.share;
    const Holders dense = dense_holders(s), experts = expert_holders(s);
    gather(recipe, parts, dense,
           bytes(dense,
                 std::max<std::int64_t>(0, share.dense - share.persistent)));
    gather(recipe, parts, experts, bytes(experts, share.experts));
  }
  return recipe;
}

std::vector<LayerShare> updated_together(const StepParts& parts,
                                         const StageShape& stage) {
  if (!parts.engine.executed)
    return {stage_share(parts.setting, parts.sizes, stage).all};
  std::vector<LayerShare> shares;
  for (const ChunkShape& chunk : stage.chunks)
    for (const FlatShare& flat : chunk_flats(parts, chunk))
      if (!flat.borrowed) shares.push_back(flat.share);
  return shares;
}

Recipe gather_updates(const StepParts& parts,
                      std::span<const LayerShare> calls) {
  const Strategy& s = parts.strategy;
  const Workload& w = parts.setting.workload;
  Recipe recipe;
  recipe.name = "gather updated parameters";
  for (const LayerShare& share : calls) {
    const Holders dense = dense_holders(s), experts = expert_holders(s);
    gather(recipe, parts, dense,
           parameter_bytes(w, padded(parts, dense, share.trained_dense)));
    gather(recipe, parts, experts,
           parameter_bytes(w, padded(parts, experts, share.trained_experts)));
  }
  return recipe;
}

Recipe boundary_send(const StepParts& parts) {
  const WorkWriter write(parts.setting, parts.strategy);
  const Strategy& s = parts.strategy;
  const Bytes bytes{write.cut_tokens() * parts.setting.model.hidden *
                    write.width()};
  const bool scatters = parts.setting.workload.framework.scatters_boundary &&
                        !s.sequence_parallel && s.tensor > 1;
  Recipe recipe;
  recipe.name = "send to the next stage";
  recipe.items.push_back(
      {TimeTerm::pipeline_comm, 1,
       Collective{CollectiveOp::send_receive, pipeline_pair(s),
                  scatters ? shard(bytes, s.tensor) : bytes}});
  if (scatters)
    recipe.items.push_back(
        {TimeTerm::pipeline_comm, 1,
         Collective{CollectiveOp::all_gather, tensor_group(s), bytes}});
  return recipe;
}

std::int64_t gradient_bucket(const Engine& engine, const Strategy& strategy) {
  return std::max<std::int64_t>(engine.bucket_elements,
                                kBucketPerRank * strategy.data);
}

int gradient_pieces(const StepParts& parts, const LayerShare& stage) {
  const std::int64_t buckets =
      divide_up(stage.trained_dense + stage.trained_experts,
                gradient_bucket(parts.engine, parts.strategy));
  const std::int64_t layers = layer_count(parts.setting.model);
  return static_cast<int>(std::max<std::int64_t>(1, std::min(buckets, layers)));
}

bool reduces_every_pass(const StepParts& parts) {
  return parts.strategy.zero >= kShardedGradients &&
         !parts.setting.workload.framework.reduces_once &&
         !keeps_stage_whole(parts.engine, parts.strategy);
}

bool reduces_beside(const StepParts& parts) {
  const bool usual = parts.setting.workload.framework.overlaps_gradients &&
                     overlaps_reduction(parts.engine, parts.strategy);
  return parts.strategy.tuning.overlap.value_or(usual);
}

std::int64_t owned_parameters(const Strategy& strategy,
                              const LayerShare& share) {
  return padded_shard(share.trained_dense, zero_group(strategy)) +
         padded_shard(share.trained_experts, expert_zero_group(strategy));
}

std::int64_t owned_weights(const Strategy& strategy, const LayerShare& share) {
  return padded_shard(share.dense, zero_group(strategy)) +
         padded_shard(share.experts, expert_zero_group(strategy));
}

Recipe norm_gradients(const StepParts& parts, std::int64_t owned) {
  Recipe recipe;
  recipe.name = "gradient norm";
  recipe.items.push_back(
      {TimeTerm::optimizer, 1,
       Stream{gradient_bytes(parts.setting.workload, owned), PassKind::fixed,
              Operation::square_sum, parts.setting.workload.gradient}});
  return recipe;
}

Recipe reduce_norm(const StepParts& parts) {
  Recipe recipe;
  recipe.name = "sum gradient norms";
  const Group all{devices(parts.strategy), 1};
  // The executor adds ranks' sums in their own order: loss, squares and
  // the balance of experts, in double.
  if (parts.engine.executed)
    add(recipe, CollectiveOp::all_gather, all, Bytes{kSums} * all.size,
        Rings::planned);
  else
    add(recipe, CollectiveOp::all_reduce, all, Bytes{kSmallestMessage},
        Rings::planned);
  return recipe;
}

Recipe step_optimizer(const StepParts& parts, std::int64_t owned) {
  const Workload& w = parts.setting.workload;
  const Bytes states = optimizer_bytes(parts, owned);
  Recipe recipe;
  recipe.name = "optimizer";
  recipe.items.push_back(
      {TimeTerm::optimizer, 1,
       Stream{gradient_bytes(w, owned) + states * 2 + parameter_bytes(w, owned),
              PassKind::fixed, Operation::optimizer,
              weight_dtype(w.precision)}});
  return recipe;
}

Recipe copy(Channel channel, Bytes bytes) {
  Recipe recipe;
  recipe.name = "copy";
  recipe.items.push_back({TimeTerm::offload, 1, Transfer{channel, bytes}});
  return recipe;
}

Recipe step_on_host(std::int64_t owned) {
  Recipe recipe;
  recipe.name = "optimizer on host";
  recipe.items.push_back({TimeTerm::offload, 1, HostAdam{owned}});
  return recipe;
}

}  // namespace ztplan
