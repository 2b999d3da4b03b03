// A group of ranks for one purpose. A group of one does nothing and costs
// nothing; what larger ones do is counted as a recipe's `Collective` counts it.
#pragma once

#include <array>
#include <memory>

#include "exec/communicator.h"
#include "step/recipe.h"

namespace ztplan {

constexpr int kCollectiveOps = 5;

/// Seconds that calls took on the thread that made them, by term: with the wait
/// for other ranks. What is waited for a neighbouring stage is `bubble`.
using CallSeconds = std::array<Seconds, kTimeTerms>;

/// What one rank asked of its groups.
struct Tally {
  struct Count {
    std::int64_t calls = 0;
    Bytes bytes;
    auto operator<=>(const Count&) const = default;
  };
  std::array<std::array<Count, kCollectiveOps>, kTimeTerms> counts{};
  std::array<Bytes, kTimeTerms> sent{};  // as `sent_bytes` has it

  void add(TimeTerm term, CollectiveOp op, std::int64_t calls, Bytes bytes) {
    Count& count = at(term, op);
    count.calls += calls;
    count.bytes += bytes;
  }
  Count& at(TimeTerm term, CollectiveOp op) {
    return counts[static_cast<std::size_t>(term)][static_cast<std::size_t>(op)];
  }
  /// Of one of `parts` equal steps.
  void divide(std::int64_t parts) {
    for (auto& ops : counts)
      for (Count& count : ops)
        count = {count.calls / parts, Bytes{count.bytes.value / parts}};
    for (Bytes& bytes : sent) bytes = {bytes.value / parts};
  }
  auto operator<=>(const Tally&) const = default;
};

class Peers {
 public:
  Peers() = default;
  /// `group` of `world`: collective over it. What it is given outlives this.
  Peers(Communicator& world, const Group& group, TimeTerm term, Tally& tally,
        CallSeconds& seconds);
  /// Ranks of `world` that name the same `color`.
  Peers(Communicator& world, int color, TimeTerm term, Tally& tally,
        CallSeconds& seconds);

  int rank() const { return group_ ? group_->rank() : 0; }
  int size() const { return group_ ? group_->size() : 1; }

  void all_reduce(Lane lane, const Array& data, Reduction how) const;
  /// `shard` in its place of `whole`, or elsewhere.
  void all_gather(Lane lane, const Array& shard, const Array& whole) const;
  void reduce_scatter(Lane lane, const Array& whole, const Array& shard) const;
  /// Counted as `held`: what one rank holds when all hold as much.
  void all_to_all(Lane lane, const Array& out,
                  std::vector<std::int64_t> out_counts, const Array& in,
                  std::vector<std::int64_t> in_counts, const Array& held) const;
  /// Each of `data` to the next rank around; from the one before into `into`.
  void pass_on(Lane lane, const std::vector<Array>& data,
               const std::vector<Array>& into) const;
  void send(Lane lane, int peer, const Array& data) const;
  void receive(Lane lane, int peer, const Array& data) const;

 private:
  void count(CollectiveOp op, const Array& large) const;
  void count(CollectiveOp op, Bytes bytes) const;
  template <class Call>
  void timed(TimeTerm term, const Call& call) const;

  std::unique_ptr<Communicator> group_;
  TimeTerm term_ = TimeTerm::compute;
  Tally* tally_ = nullptr;
  CallSeconds* seconds_ = nullptr;
};

}  // namespace ztplan
