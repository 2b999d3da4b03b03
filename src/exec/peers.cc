#include "exec/peers.h"

#include <chrono>
#include <utility>

#include "base/error.h"

namespace ztplan {
Peers::Peers(Communicator& world, const Group& group, TimeTerm term,
             Tally& tally, CallSeconds& seconds)
    : term_(term), tally_(&tally), seconds_(&seconds) {
  if (group.size == 1) return;
  const int place = world.rank() / group.stride % group.size;
  group_ = world.split(world.rank() - place * group.stride, place);
  require(group_->size() == group.size, "a group has the ranks it is made of");
}

Peers::Peers(Communicator& world, int color, TimeTerm term, Tally& tally,
             CallSeconds& seconds)
    : group_(world.split(color, world.rank())),
      term_(term),
      tally_(&tally),
      seconds_(&seconds) {}

template <class Call>
void Peers::timed(TimeTerm term, const Call& call) const {
  const auto start = std::chrono::steady_clock::now();
  call();
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  (*seconds_)[static_cast<std::size_t>(term)] += Seconds{took.count()};
}

void Peers::count(CollectiveOp op, const Array& large) const {
  count(op, bytes_in(large));
}

void Peers::count(CollectiveOp op, Bytes bytes) const {
  tally_->add(term_, op, 1, bytes);
  tally_->sent[static_cast<std::size_t>(term_)] +=
      sent_bytes({op, Group{size(), 1}, bytes});
}

void Peers::all_reduce(Lane lane, const Array& data, Reduction how) const {
  if (size() == 1 || data.empty()) return;
  count(CollectiveOp::all_reduce, data);
  timed(term_, [&] { group_->all_reduce(lane, data, how); });
}

void Peers::all_gather(Lane lane, const Array& shard,
                       const Array& whole) const {
  if (size() == 1 || whole.empty()) return;
  count(CollectiveOp::all_gather, whole);
  timed(term_, [&] { group_->all_gather(lane, shard, whole); });
}

void Peers::reduce_scatter(Lane lane, const Array& whole,
                           const Array& shard) const {
  if (size() == 1 || whole.empty()) return;
  count(CollectiveOp::reduce_scatter, whole);
  timed(term_, [&] { group_->reduce_scatter(lane, whole, shard); });
}

void Peers::all_to_all(Lane lane, const Array& out,
                       std::vector<std::int64_t> out_counts, const Array& in,
                       std::vector<std::int64_t> in_counts,
                       const Array& held) const {
  count(CollectiveOp::all_to_all, held);
  timed(term_, [&] {
    group_->all_to_all(lane, out, std::move(out_counts), in,
                       std::move(in_counts));
  });
}

void Peers::pass_on(Lane lane, const std::vector<Array>& data,
                    const std::vector<Array>& into) const {
  const int next = (rank() + 1) % size();
  const int before = (rank() + size() - 1) % size();
  std::vector<Message> sends, receives;
  Bytes bytes;
  for (const Array& array : data) {
    sends.push_back({next, array});
    bytes += bytes_in(array);
  }
  for (const Array& array : into) receives.push_back({before, array});
  count(CollectiveOp::send_receive, bytes);
  timed(term_,
        [&] { group_->exchange(lane, std::move(sends), std::move(receives)); });
}

void Peers::send(Lane lane, int peer, const Array& data) const {
  count(CollectiveOp::send_receive, data);
  timed(term_, [&] { group_->exchange(lane, {{peer, data}}, {}); });
}

void Peers::receive(Lane lane, int peer, const Array& data) const {
  timed(TimeTerm::bubble, [&] { group_->exchange(lane, {}, {{peer, data}}); });
}

}  // namespace ztplan
