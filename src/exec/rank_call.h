// What a rank asks of its communicator, to be compared with what the others
// ask at the same place, and named when they differ or do not come.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/communicator.h"

namespace ztplan {

enum class CallKind {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  all_to_all,
  barrier,
  split
};

/// The part of a call in which all ranks agree.
struct RankCall {
  CallKind kind = CallKind::barrier;
  std::int64_t size = 0;  // elements of the large buffer; 0 for all_to_all
  Precision dtype = Precision::fp32;
  Reduction how = Reduction::sum;
  int root = 0;
  auto operator<=>(const RankCall&) const = default;
};

/// "broadcast of 8 fp32 from rank 1"
std::string to_text(const RankCall& call);
/// "rank 3", "ranks 0-3, 6"; ranks of the world in rising order or not.
std::string ranks_text(std::span<const int> ranks);

// The calls as a rank makes them, held against the size of its communicator.
// Each throws `Error` when the buffers cannot be right whatever the others do.

RankCall all_reduce_call(const Array& data, Reduction how);
RankCall all_gather_call(int ranks, const Array& shard, const Array& whole);
RankCall reduce_scatter_call(int ranks, const Array& whole, const Array& shard);
RankCall broadcast_call(int ranks, const Array& data, int root);
RankCall all_to_all_call(int ranks, const Array& out,
                         std::span<const std::int64_t> out_counts,
                         const Array& in,
                         std::span<const std::int64_t> in_counts);
/// Each message goes to, or comes from, a rank there is.
void check_messages(int ranks, std::span<const Message> messages);

}  // namespace ztplan
