#include "exec/rank_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace ztplan {
namespace {

std::string_view to_text(CallKind kind) {
  switch (kind) {
    case CallKind::all_reduce:
      return "all_reduce";
    case CallKind::all_gather:
      return "all_gather";
    case CallKind::reduce_scatter:
      return "reduce_scatter";
    case CallKind::broadcast:
      return "broadcast";
    case CallKind::all_to_all:
      return "all_to_all";
    case CallKind::barrier:
      return "barrier";
    case CallKind::split:
      return "split";
  }
  return "";
}

void check_sum(std::string_view what, Precision dtype) {
  if (dtype == Precision::fp8)
    throw Error(fmt::format("{}: ranks cannot add in fp8", what),
                "use bf16, fp16 or fp32");
}

void check_shards(std::string_view what, int ranks, const Array& shard,
                  const Array& whole) {
  if (shard.dtype != whole.dtype)
    throw Error(fmt::format("{}: the shard is {}, the whole {}", what,
                            to_text(shard.dtype), to_text(whole.dtype)));
  if (shard.size * ranks != whole.size)
    throw Error(fmt::format("{}: {} shards of {} elements are not {}", what,
                            ranks, shard.size, whole.size));
}

void check_rank(std::string_view what, int ranks, int rank) {
  if (rank < 0 || rank >= ranks)
    throw Error(
        fmt::format("{}: there is no rank {} among {}", what, rank, ranks));
}

void check_counts(int ranks, const Array& data,
                  std::span<const std::int64_t> counts) {
  if (std::ssize(counts) != ranks)
    throw Error(fmt::format("all_to_all: {} counts for {} ranks", counts.size(),
                            ranks));
  if (std::ranges::any_of(counts, [](std::int64_t n) { return n < 0; }))
    throw Error("all_to_all: a count is negative");
  const auto total =
      std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (total > data.size)
    throw Error(fmt::format("all_to_all: {} elements of a buffer of {}", total,
                            data.size));
}

}  // namespace

std::string to_text(const RankCall& call) {
  std::string text{to_text(call.kind)};
  if (call.kind == CallKind::barrier || call.kind == CallKind::split)
    return text;
  if (call.kind == CallKind::all_to_all)
    return text + fmt::format(" of {}", to_text(call.dtype));
  text += fmt::format(" of {} {}", call.size, to_text(call.dtype));
  if (call.kind == CallKind::broadcast)
    text += fmt::format(" from rank {}", call.root);
  if (call.how == Reduction::maximum) text += " (maximum)";
  return text;
}

std::string ranks_text(std::span<const int> ranks) {
  std::vector<std::string> runs;
  for (std::size_t from = 0; from < ranks.size();) {
    std::size_t to = from;
    while (to + 1 < ranks.size() && ranks[to + 1] == ranks[to] + 1) ++to;
    runs.push_back(to == from ? fmt::format("{}", ranks[from])
                              : fmt::format("{}-{}", ranks[from], ranks[to]));
    from = to + 1;
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks",
                     fmt::join(runs, ", "));
}

RankCall all_reduce_call(const Array& data, Reduction how) {
  check_sum("all_reduce", data.dtype);
  return {CallKind::all_reduce, data.size, data.dtype, how, 0};
}

RankCall all_gather_call(int ranks, const Array& shard, const Array& whole) {
  check_shards("all_gather", ranks, shard, whole);
  return {CallKind::all_gather, whole.size, whole.dtype, Reduction::sum, 0};
}

RankCall reduce_scatter_call(int ranks, const Array& whole,
                             const Array& shard) {
  check_sum("reduce_scatter", whole.dtype);
  check_shards("reduce_scatter", ranks, shard, whole);
  return {CallKind::reduce_scatter, whole.size, whole.dtype, Reduction::sum, 0};
}

RankCall broadcast_call(int ranks, const Array& data, int root) {
  check_rank("broadcast", ranks, root);
  return {CallKind::broadcast, data.size, data.dtype, Reduction::sum, root};
}

RankCall all_to_all_call(int ranks, const Array& out,
                         std::span<const std::int64_t> out_counts,
                         const Array& in,
                         std::span<const std::int64_t> in_counts) {
  check_counts(ranks, out, out_counts);
  check_counts(ranks, in, in_counts);
  if (out.dtype != in.dtype)
    throw Error(fmt::format("all_to_all: {} goes out, {} comes in",
                            to_text(out.dtype), to_text(in.dtype)));
  return {CallKind::all_to_all, 0, out.dtype, Reduction::sum, 0};
}

void check_messages(int ranks, std::span<const Message> messages) {
  for (const Message& message : messages)
    check_rank("exchange", ranks, message.peer);
}

}  // namespace ztplan
