// Where ranks sit: the grid tensor < context < data < pipeline, innermost first
// (Megatron's default order tp-cp-ep-dp-pp), and the links each group spans.
#pragma once

#include <compare>
#include <cstdint>

#include "spec/cluster.h"
#include "strategy/strategy.h"

namespace ztplan {

/// `size` ranks, `stride` apart: r, r + stride, r + 2 stride, ... Groups tile
/// the ranks in blocks of size * stride. With `chain`, `size` neighbours of a
/// row of that many: they overlap, and the worst placed ones count.
struct Group {
  int size = 1;
  int stride = 1;
  int chain = 0;
  auto operator<=>(const Group&) const = default;
};

Group tensor_group(const Strategy& strategy);
Group context_group(const Strategy& strategy);
/// Data parallel together with context: gradients are reduced over both.
Group gradient_group(const Strategy& strategy);
/// The ZeRO shard group (inside gradient_group), and its replicas.
Group shard_group(const Strategy& strategy);
Group replica_group(const Strategy& strategy);
/// Ranks that share an expert, expert parallel ranks, and both together: inside
/// tensor * context * data, innermost.
Group expert_tensor_group(const Strategy& strategy);
Group expert_group(const Strategy& strategy);
Group expert_cut_group(const Strategy& strategy);
/// Ranks that hold equal experts and reduce their gradients.
Group expert_gradient_group(const Strategy& strategy);
/// Neighbouring stages: two ranks, tensor * context * data apart, anywhere in
/// the chain of stages; one rank without a pipeline.
Group pipeline_pair(const Strategy& strategy);

/// Index of the innermost level whose every instance holds its groups whole;
/// the outermost when none smaller does. O(levels), allocates nothing.
std::size_t level_spanned(const Group& group, const ClusterSpec& cluster);

/// The most members of one group inside one instance of `levels[level]`; of a
/// chain, those that even its worst placed neighbours share. At least 1.
int members_within(const Group& group, const ClusterSpec& cluster,
                   std::size_t level);

}  // namespace ztplan
