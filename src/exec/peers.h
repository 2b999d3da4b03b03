// A group of ranks for one purpose. A group of one does nothing and costs
// nothing; what larger ones do is counted as a recipe's `Collective` counts it.
#pragma once

#include <array>
#include <memory>

#include "exec/communicator.h"
#include "step/recipe.h"

namespace ztplan {

constexpr int kCollectiveOps = 5;

/// What one rank asked of its groups.
struct Tally {
  struct Count {
    std::int64_t calls = 0;
    Bytes bytes;
    auto operator<=>(const Count&) const = default;
  };
  std::array<std::array<Count, kCollectiveOps>, kTimeTerms> counts{};

  void add(TimeTerm term, CollectiveOp op, std::int64_t calls, Bytes bytes) {
    Count& count = at(term, op);
    count.calls += calls;
    count.bytes += bytes;
  }
  Count& at(TimeTerm term, CollectiveOp op) {
    return counts[static_cast<std::size_t>(term)][static_cast<std::size_t>(op)];
  }
  auto operator<=>(const Tally&) const = default;
};

class Peers {
 public:
  Peers() = default;
  /// `group` of `world`: collective over it. `world` and `tally` outlive this.
  Peers(Communicator& world, const Group& group, TimeTerm term, Tally& tally);
  /// Ranks of `world` that name the same `color`.
  Peers(Communicator& world, int color, TimeTerm term, Tally& tally);

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
  void pass_on(Lane lane, std::vector<Array> data,
               std::vector<Array> into) const;
  void send(Lane lane, int peer, const Array& data) const;
  void receive(Lane lane, int peer, const Array& data) const;

 private:
  void count(CollectiveOp op, const Array& large) const;

  std::unique_ptr<Communicator> group_;
  TimeTerm term_ = TimeTerm::compute;
  Tally* tally_ = nullptr;
};

}  // namespace ztplan
