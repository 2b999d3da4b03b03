#include "step/state_work.h"

#include <algorithm>

#include "step/work_writer.h"
#include "strategy/engine_memory.h"

namespace ztplan {
namespace {

constexpr std::int64_t kBucketPerRank = 1'000'000;
constexpr int kSmallestMessage = 4;  // one fp32 number

int weight_width(const Workload& workload) {
  return workload.precision == Precision::fp32 ? 4 : 2;
}

// Largest gradients sent by `topk`, one in so many, and the bytes of their
// places. Source: Lin et al. 2018, arXiv 1712.01887 (ratio 0.1 to 1 %).
constexpr std::int64_t kTopkShare = 100;
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
  const std::int64_t sent = divide_up(count, kTopkShare);
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

void reduce(Recipe& recipe, const StepParts& parts, const Holders& holders,
            std::int64_t count, Boundary boundary) {
  const Strategy& s = parts.strategy;
  const Rings rings = gradient_rings(parts);
  if (count == 0) return;
  if (s.tuning.compression == Compression::topk)
    return add(recipe, CollectiveOp::all_gather, holders.whole,
               gathered_topk(parts, holders.whole, count), rings);
  const Bytes bytes = travelling(parts, count);
  if (s.zero == 0)
    return add(recipe, CollectiveOp::all_reduce, holders.whole, bytes, rings);
  const bool whole = s.zero <= parts.engine.memory->all_reduces_through;
  add(recipe, whole ? CollectiveOp::all_reduce : CollectiveOp::reduce_scatter,
      holders.shards, bytes, rings);
  if (boundary == Boundary::last)
    add(recipe, CollectiveOp::all_reduce, holders.replicas,
        shard(bytes, holders.shards.size), rings);
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

Recipe reduce_gradients(const StepParts& parts, const LayerShare& share,
                        Boundary boundary) {
  const Strategy& s = parts.strategy;
  Recipe recipe;
  recipe.name = "reduce gradients";
  reduce(recipe, parts, dense_holders(s), share.trained_dense, boundary);
  reduce(recipe, parts, expert_holders(s), share.trained_experts, boundary);
  return recipe;
}

/// With qwZ, a byte a weight: arXiv 2306.10209, section 3.1.
Recipe gather_parameters(const StepParts& parts, const LayerShare& share) {
  const Strategy& s = parts.strategy;
  const auto bytes = [&](std::int64_t count) {
    return s.tuning.quantized_weights
               ? Bytes{count}
               : stored_bytes(parts.setting.workload, count);
  };
  Recipe recipe;
  recipe.name = "gather parameters";
  gather(recipe, parts, dense_holders(s), bytes(share.dense));
  gather(recipe, parts, expert_holders(s), bytes(share.experts));
  return recipe;
}

Recipe gather_updates(const StepParts& parts, const LayerShare& share) {
  const Strategy& s = parts.strategy;
  const Workload& w = parts.setting.workload;
  Recipe recipe;
  recipe.name = "gather updated parameters";
  gather(recipe, parts, dense_holders(s),
         parameter_bytes(w, share.trained_dense));
  gather(recipe, parts, expert_holders(s),
         parameter_bytes(w, share.trained_experts));
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
       Stream{gradient_bytes(parts.setting.workload, owned)}});
  return recipe;
}

Recipe reduce_norm(const StepParts& parts) {
  Recipe recipe;
  recipe.name = "sum gradient norms";
  add(recipe, CollectiveOp::all_reduce, Group{devices(parts.strategy), 1},
      Bytes{kSmallestMessage}, Rings::planned);
  return recipe;
}

Recipe step_optimizer(const StepParts& parts, std::int64_t owned) {
  const Workload& w = parts.setting.workload;
  const Bytes states = optimizer_bytes(parts, owned);
  Recipe recipe;
  recipe.name = "optimizer";
  recipe.items.push_back({TimeTerm::optimizer, 1,
                          Stream{gradient_bytes(w, owned) + states * 2 +
                                 parameter_bytes(w, owned)}});
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
