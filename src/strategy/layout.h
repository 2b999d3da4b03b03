// Where ranks sit: the grid tensor < context < data < pipeline, innermost first
// (Megatron's default order tp-cp-ep-dp-pp), and the links each group spans.
#pragma once

#include <compare>
#include <cstdint>

#include "spec/cluster.h"
#include "strategy/strategy.h"

namespace ztplan {

/// `size` ranks, `stride` apart: r, r + stride, r + 2 stride, ...
struct Group {
  int size = 1;
  int stride = 1;
  auto operator<=>(const Group&) const = default;
};

Group tensor_group(const Strategy& strategy);
Group context_group(const Strategy& strategy);
/// Data parallel together with context: gradients are reduced over both.
Group gradient_group(const Strategy& strategy);
/// The ZeRO shard group (inside gradient_group), and its replicas.
Group shard_group(const Strategy& strategy);
Group replica_group(const Strategy& strategy);
/// Expert parallel ranks: inside tensor * context * data, innermost.
Group expert_group(const Strategy& strategy);
/// Ranks that hold equal experts and reduce their gradients.
Group expert_gradient_group(const Strategy& strategy);
/// Neighbouring stages: two ranks, tensor * context * data apart.
Group pipeline_pair(const Strategy& strategy);

/// Index of the innermost level that joins all members of `group`.
std::size_t level_spanned(const Group& group, const ClusterSpec& cluster);

/// Members of `group` inside one instance of `levels[level]`, at least 1.
int members_within(const Group& group, const ClusterSpec& cluster,
                   std::size_t level);

}  // namespace ztplan
