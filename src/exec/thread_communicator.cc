#include "exec/thread_communicator.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "exec/rank_meeting.h"
#include "exec/rank_sum.h"

namespace ztplan {
namespace {

/// Part `index` of `parts` nearly equal ones.
Array part_of(const Array& whole, std::size_t index, std::size_t parts) {
  const auto begin = [&](std::size_t i) {
    return whole.size * static_cast<std::int64_t>(i) /
           static_cast<std::int64_t>(parts);
  };
  return slice(whole, begin(index), begin(index + 1) - begin(index));
}

Array shard_of(const Array& whole, std::size_t index, std::size_t parts) {
  const std::int64_t size = whole.size / static_cast<std::int64_t>(parts);
  return slice(whole, static_cast<std::int64_t>(index) * size, size);
}

/// What is in its place is not touched: others read it.
void copy_to(const Array& to, const Array& from) {
  if (from.empty() || to.data == from.data) return;
  std::memmove(to.data, from.data,
               static_cast<std::size_t>(bytes_in(from).value));
}

/// The same share of every rank's `out`, put together into all of `to`.
void combine_share(Reduction how, std::span<const RankPart> parts,
                   std::int64_t from, std::int64_t size,
                   const std::vector<std::byte*>& to) {
  std::vector<const std::byte*> shares;
  for (const RankPart& part : parts)
    shares.push_back(slice(part.out, from, size).data);
  combine(how, parts.front().out.dtype, size, shares, to);
}

std::int64_t sum_before(std::span<const std::int64_t> counts,
                        std::size_t rank) {
  return std::accumulate(counts.begin(),
                         counts.begin() + static_cast<std::ptrdiff_t>(rank),
                         std::int64_t{0});
}

/// What each rank sent to `me`, one after another.
void take_counts(std::span<const RankPart> parts, std::size_t me) {
  std::int64_t at = 0;
  for (const RankPart& peer : parts) {
    const std::int64_t size = peer.out_counts[me];
    copy_to(slice(parts[me].in, at, size),
            slice(peer.out, sum_before(peer.out_counts, me), size));
    at += size;
  }
}

/// Ranks of the color of `me`, by key, then by rank.
std::vector<std::size_t> ranks_beside(std::span<const RankPart> parts,
                                      std::size_t me) {
  std::vector<std::size_t> ranks;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].color == parts[me].color) ranks.push_back(i);
  std::ranges::stable_sort(ranks, {},
                           [&](std::size_t i) { return parts[i].key; });
  return ranks;
}

/// The communicator of one rank. Calls are numbered when they are made, so that
/// it does not matter in which order lanes come to them.
class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<RankMeeting> meeting, std::size_t rank,
                     Device& device)
      : meeting_(std::move(meeting)), rank_(rank), device_(device) {}

  int rank() const override { return static_cast<int>(rank_); }
  int size() const override {
    return static_cast<int>(meeting_->members().size());
  }

  void all_reduce(Lane lane, const Array& data, Reduction how) override {
    const RankCall call = checked([&] { return all_reduce_call(data, how); });
    meet(lane, call, RankPart{.out = data},
         [how, me = rank_](std::span<RankPart> parts) {
           const Array own = part_of(parts[me].out, me, parts.size());
           const std::int64_t from =
               (own.data - parts[me].out.data) / bytes_of(own.dtype);
           std::vector<std::byte*> to;
           for (const RankPart& part : parts)
             to.push_back(slice(part.out, from, own.size).data);
           combine_share(how, parts, from, own.size, to);
         });
  }

  void all_gather(Lane lane, const Array& shard, const Array& whole) override {
    const RankCall call =
        checked([&] { return all_gather_call(size(), shard, whole); });
    meet(lane, call, RankPart{.out = shard, .in = whole},
         [me = rank_](std::span<RankPart> parts) {
           for (std::size_t i = 0; i < parts.size(); ++i)
             copy_to(shard_of(parts[me].in, i, parts.size()), parts[i].out);
         });
  }

  void reduce_scatter(Lane lane, const Array& whole,
                      const Array& shard) override {
    const RankCall call =
        checked([&] { return reduce_scatter_call(size(), whole, shard); });
    meet(lane, call, RankPart{.out = whole, .in = shard},
         [me = rank_](std::span<RankPart> parts) {
           const Array& own = parts[me].in;
           combine_share(Reduction::sum, parts,
                         static_cast<std::int64_t>(me) * own.size, own.size,
                         {own.data});
         });
  }

  void broadcast(Lane lane, const Array& data, int root) override {
    const RankCall call =
        checked([&] { return broadcast_call(size(), data, root); });
    meet(lane, call, RankPart{.out = data},
         [root, me = rank_](std::span<RankPart> parts) {
           if (me != static_cast<std::size_t>(root))
             copy_to(parts[me].out, parts[static_cast<std::size_t>(root)].out);
         });
  }

  void all_to_all(Lane lane, const Array& out,
                  std::vector<std::int64_t> out_counts, const Array& in,
                  std::vector<std::int64_t> in_counts) override {
    const RankCall call = checked([&] {
      return all_to_all_call(size(), out, out_counts, in, in_counts);
    });
    meet(lane, call,
         RankPart{.out = out,
                  .in = in,
                  .out_counts = std::move(out_counts),
                  .in_counts = std::move(in_counts)},
         [me = rank_](std::span<RankPart> parts) { take_counts(parts, me); });
  }

  void exchange(Lane lane, std::vector<Message> sends,
                std::vector<Message> receives) override {
    checked([&] {
      check_messages(size(), sends);
      check_messages(size(), receives);
      return RankCall{};
    });
    using Numbered = std::vector<std::pair<MessagePlace, Array>>;
    Numbered out, in;
    for (const Message& send : sends)
      out.emplace_back(next_place(rank(), send.peer, sent_[send.peer]),
                       send.data);
    for (const Message& receive : receives)
      in.emplace_back(next_place(receive.peer, rank(), received_[receive.peer]),
                      receive.data);
    device_.enqueue(lane, [meeting = meeting_, out, in] {
      for (const auto& [place, data] : out) meeting->post(place, data);
      for (const auto& [place, data] : in) meeting->fetch(place, data);
    });
  }

  void barrier(Lane lane) override {
    checked([] { return RankCall{}; });
    meet(lane, {CallKind::barrier}, {}, [](std::span<RankPart>) {});
  }

  std::unique_ptr<Communicator> split(int color, int key) override;

  void abort(const std::string& why) override { meeting_->world().abort(why); }

 private:
  /// The call as it is checked; what is wrong with it ends the world.
  template <class Check>
  RankCall checked(const Check& check) {
    meeting_->world().check();
    try {
      return check();
    } catch (const Error& error) {
      abort(error.what());
      throw;
    }
  }

  void meet(Lane lane, const RankCall& call, RankPart part,
            RankMeeting::Act act) {
    device_.enqueue(lane, [meeting = meeting_, me = rank(), number = calls_++,
                           call, part = std::move(part), act = std::move(act)] {
      meeting->meet(me, number, call, part, act);
    });
  }

  static MessagePlace next_place(int from, int to, std::int64_t& number) {
    return {from, to, number++};
  }

  const std::shared_ptr<RankMeeting> meeting_;
  const std::size_t rank_;
  Device& device_;
  std::int64_t calls_ = 0;
  std::map<int, std::int64_t> sent_, received_;  // messages, by peer
};

/// Two meetings: the first tells who belongs together, of whom the first makes
/// the new meeting that the second hands to the others.
std::unique_ptr<Communicator> ThreadCommunicator::split(int color, int key) {
  meeting_->world().check();
  std::vector<std::size_t> beside;
  meeting_->meet(
      rank(), calls_++, {CallKind::split}, RankPart{.color = color, .key = key},
      [&](std::span<RankPart> parts) { beside = ranks_beside(parts, rank_); });
  std::shared_ptr<RankMeeting> made;
  if (beside.front() == rank_) {
    std::vector<int> members;
    members.reserve(beside.size());
    for (const std::size_t member : beside)
      members.push_back(meeting_->members()[member]);
    made = RankMeeting::make(meeting_->shared_world(), std::move(members));
  }
  meeting_->meet(
      rank(), calls_++, {CallKind::split}, RankPart{.made = made},
      [&](std::span<RankPart> parts) { made = parts[beside.front()].made; });
  const auto place = std::ranges::find(beside, rank_) - beside.begin();
  return std::make_unique<ThreadCommunicator>(
      made, static_cast<std::size_t>(place), device_);
}

std::string reason(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "a rank failed";
  }
}

}  // namespace

ThreadWorld::ThreadWorld(int ranks, std::chrono::milliseconds timeout) {
  if (ranks < 1) throw Error("a world has one rank at least");
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  meeting_ = RankMeeting::make(std::make_shared<RankWorld>(timeout),
                               std::move(members));
}

std::unique_ptr<Communicator> ThreadWorld::join(int rank, Device& device) {
  require(rank >= 0 && rank < size(), "a rank joins the world it is of");
  return std::make_unique<ThreadCommunicator>(
      meeting_, static_cast<std::size_t>(rank), device);
}

void ThreadWorld::abort(const std::string& why) {
  meeting_->world().abort(why);
}

int ThreadWorld::size() const {
  return static_cast<int>(meeting_->members().size());
}

void run_ranks(ThreadWorld& world, const std::function<void(int)>& work) {
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&](int rank) {
    try {
      work(rank);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
      world.abort(reason(std::current_exception()));
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(world.size()));
  for (int rank = 0; rank < world.size(); ++rank)
    threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace ztplan
