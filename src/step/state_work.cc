#include "step/state_work.h"

#include <algorithm>

#include "step/work_writer.h"

namespace ztplan {
namespace {

// Bytes per owned parameter of a fused AdamW: gradient, master, momentum and
// variance read, the three written, the 16-bit weight written.
constexpr int kAdamStates = 4 + 4 + 4, kAdamWritten = 4 + 4 + 4;
constexpr std::int64_t kBucketPerRank = 1'000'000;
constexpr int kSmallestMessage = 4;  // one fp32 number

int weight_width(const Workload& workload) {
  return workload.precision == Precision::fp32 ? 4 : 2;
}

void add(Recipe& recipe, CollectiveOp op, const Group& group, Bytes bytes) {
  if (group.size == 1 || bytes.value == 0) return;
  recipe.items.push_back(
      {TimeTerm::data_comm, 1, Collective{op, group, bytes}});
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

void reduce(Recipe& recipe, const StepParts& parts, const Holders& holders,
            Bytes bytes, Boundary boundary) {
  if (parts.strategy.zero == 0)
    return add(recipe, CollectiveOp::all_reduce, holders.whole, bytes);
  add(recipe, CollectiveOp::reduce_scatter, holders.shards, bytes);
  if (boundary == Boundary::last)
    add(recipe, CollectiveOp::all_reduce, holders.replicas,
        shard(bytes, holders.shards.size));
}

}  // namespace

Bytes parameter_bytes(const Workload& workload, std::int64_t count) {
  return {count * weight_width(workload)};
}

Bytes gradient_bytes(const Workload& workload, std::int64_t count) {
  return {count * bytes_of(workload.gradient)};
}

Bytes state_bytes(const Workload& workload, std::int64_t count) {
  const bool master = workload.precision != Precision::fp32;
  return {count * (kAdamStates - (master ? 0 : 4))};
}

Recipe reduce_gradients(const StepParts& parts, const LayerShare& share,
                        Boundary boundary) {
  const Strategy& s = parts.strategy;
  const Workload& w = parts.setting.workload;
  Recipe recipe;
  recipe.name = "reduce gradients";
  reduce(recipe, parts, dense_holders(s), gradient_bytes(w, share.dense),
         boundary);
  reduce(recipe, parts, expert_holders(s), gradient_bytes(w, share.experts),
         boundary);
  return recipe;
}

Recipe gather_parameters(const StepParts& parts, const LayerShare& share) {
  const Strategy& s = parts.strategy;
  const Workload& w = parts.setting.workload;
  Recipe recipe;
  recipe.name = "gather parameters";
  add(recipe, CollectiveOp::all_gather, shard_group(s),
      parameter_bytes(w, share.dense));
  add(recipe, CollectiveOp::all_gather, expert_holders(s).shards,
      parameter_bytes(w, share.experts));
  return recipe;
}

Item boundary_send(const StepParts& parts) {
  const WorkWriter write(parts.setting, parts.strategy);
  const Bytes bytes{write.cut_tokens() * parts.setting.model.hidden *
                    write.width()};
  return {TimeTerm::pipeline_comm, 1,
          Collective{CollectiveOp::send_receive, pipeline_pair(parts.strategy),
                     bytes}};
}

std::int64_t gradient_bucket(const Engine& engine, const Strategy& strategy) {
  return std::max<std::int64_t>(engine.bucket_elements,
                                kBucketPerRank * strategy.data);
}

std::int64_t owned_parameters(const Strategy& strategy,
                              const LayerShare& share) {
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
      Bytes{kSmallestMessage});
  return recipe;
}

Recipe step_optimizer(const StepParts& parts, std::int64_t owned) {
  const Workload& w = parts.setting.workload;
  const bool master = w.precision != Precision::fp32;
  const Bytes written = {owned * (kAdamWritten - (master ? 0 : 4))};
  Recipe recipe;
  recipe.name = "optimizer";
  recipe.items.push_back(
      {TimeTerm::optimizer, 1,
       Stream{gradient_bytes(w, owned) + state_bytes(w, owned) + written +
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
