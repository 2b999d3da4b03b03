#include "strategy/layout.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace ztplan {
namespace {

// Ranks from the first member of a group to the first of the next: a chain is
// one group of all its stages, of which some neighbours sit across each edge.
std::int64_t block(const Group& group) {
  const int members = group.chain > 0 ? group.chain : group.size;
  return std::int64_t{members} * group.stride;
}

// Groups tile the ranks in blocks, so none crosses an edge between instances
// of `instance` ranks exactly when a block ends at each of them.
bool holds_whole(std::int64_t instance, const Group& group) {
  return group.size == 1 || instance % block(group) == 0;
}

}  // namespace

Group tensor_group(const Strategy& s) { return {s.tensor, 1}; }

Group context_group(const Strategy& s) { return {s.context, s.tensor}; }

Group gradient_group(const Strategy& s) {
  return {s.context * s.data, s.tensor};
}

Group shard_group(const Strategy& s) { return {zero_group(s), s.tensor}; }

Group replica_group(const Strategy& s) {
  const int shards = zero_group(s);
  return {s.context * s.data / shards, s.tensor * shards};
}

Group expert_tensor_group(const Strategy& s) { return {s.expert_tensor, 1}; }

Group expert_group(const Strategy& s) { return {s.expert, s.expert_tensor}; }

Group expert_cut_group(const Strategy& s) { return {expert_cut(s), 1}; }

Group expert_gradient_group(const Strategy& s) {
  return {expert_data(s), expert_cut(s)};
}

Group pipeline_pair(const Strategy& s) {
  return {std::min(s.pipeline, 2), s.tensor * s.context * s.data, s.pipeline};
}

std::size_t level_spanned(const Group& group, const ClusterSpec& cluster) {
  require(!cluster.levels.empty(), "level_spanned: a cluster has levels");
  const std::size_t outermost = cluster.levels.size() - 1;
  std::int64_t instance = 1;
  for (std::size_t level = 0; level < outermost; ++level) {
    instance *= cluster.levels[level].fanout;
    if (holds_whole(instance, group)) return level;
  }
  return outermost;
}

int members_within(const Group& group, const ClusterSpec& cluster,
                   std::size_t level) {
  if (level >= level_spanned(group, cluster)) return group.size;
  if (group.chain > 0) return 1;
  std::int64_t instance = 1;
  for (std::size_t i = 0; i <= level; ++i) {
    instance *= cluster.levels[i].fanout;
  }
  return static_cast<int>(
      std::min<std::int64_t>(group.size, divide_up(instance, group.stride)));
}

}  // namespace ztplan
