#include "exec/thread_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "exec/rank_call.h"
#include "exec/rank_sum.h"

namespace ztplan {
namespace {

/// What one rank brings to a call.
struct Offer {
  RankCall call;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::vector<std::int64_t> counts;
  int color = 0, key = 0;
};

class Team;

}  // namespace

/// The first reason to stop, and everybody who must hear it.
struct ThreadWorld::Shared {
  int ranks = 0;
  std::chrono::milliseconds timeout{};
  std::mutex mutex;
  bool stopped = false;
  std::string why;
  std::vector<std::weak_ptr<Team>> teams;
  std::shared_ptr<Team> all;

  void stop(const std::string& reason);
  bool is_stopped() {
    const std::lock_guard lock(mutex);
    return stopped;
  }
  void check() {
    const std::lock_guard lock(mutex);
    if (stopped) throw Error(why);
  }
};

namespace {

/// The state of one communicator.
class Team : public std::enable_shared_from_this<Team> {
 public:
  Team(std::shared_ptr<ThreadWorld::Shared> world, std::vector<int> ranks)
      : world_(std::move(world)),
        ranks_(std::move(ranks)),
        offers_(ranks_.size()),
        here_(ranks_.size()) {}

  int size() const { return static_cast<int>(ranks_.size()); }
  ThreadWorld::Shared& world() { return *world_; }
  const Offer& offer(int rank) const {
    return offers_[static_cast<std::size_t>(rank)];
  }

  /// `rank` comes with `offer` and waits until all have.
  void meet(int rank, Offer offer) {
    std::unique_lock lock(mutex_);
    const auto me = static_cast<std::size_t>(rank);
    offers_[me] = std::move(offer);
    arrive(lock, rank);
  }
  /// Waits until all are done with what was offered.
  void part(int rank) {
    std::unique_lock lock(mutex_);
    arrive(lock, rank);
  }

  void post(int from, int to, std::vector<std::byte> message) {
    {
      const std::lock_guard lock(mutex_);
      mail_[{from, to}].push_back(std::move(message));
    }
    changed_.notify_all();
  }
  std::vector<std::byte> take(int from, int to) {
    std::unique_lock lock(mutex_);
    auto& queue = mail_[{from, to}];
    wait(
        lock, [&] { return !queue.empty(); },
        [&] {
          return fmt::format("{} waited for a message from {}", name({to}),
                             name({from}));
        });
    std::vector<std::byte> message = std::move(queue.front());
    queue.pop_front();
    return message;
  }

  /// The team of those who offered the color of `rank`, and its place there.
  std::pair<std::shared_ptr<Team>, int> split(int rank) {
    const Offer& mine = offer(rank);
    std::vector<std::pair<int, int>> members;  // key, rank
    for (int other = 0; other < size(); ++other)
      if (offer(other).color == mine.color)
        members.emplace_back(offer(other).key, other);
    std::ranges::sort(members);
    std::vector<int> ranks;
    int place = 0;
    for (const auto& member : members) {
      if (member.second == rank) place = static_cast<int>(ranks.size());
      ranks.push_back(ranks_[static_cast<std::size_t>(member.second)]);
    }
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Team>& made = made_[mine.color];
    if (made == nullptr) {
      made = std::make_shared<Team>(world_, std::move(ranks));
      const std::lock_guard world_lock(world_->mutex);
      world_->teams.push_back(made);
    }
    return {made, place};
  }
  void forget_splits() {
    const std::lock_guard lock(mutex_);
    made_.clear();
  }

  void wake() {
    { const std::lock_guard lock(mutex_); }
    changed_.notify_all();
  }

 private:
  template <class Done, class Text>
  void wait(std::unique_lock<std::mutex>& lock, const Done& done,
            const Text& complaint) {
    const bool came = changed_.wait_for(
        lock, world_->timeout, [&] { return done() || world_->is_stopped(); });
    if (came && done()) return;
    lock.unlock();
    if (!came)
      world_->stop(
          fmt::format("{} for {:.1f} s in vain", complaint(),
                      static_cast<double>(world_->timeout.count()) / 1000));
    world_->check();
    throw Bug("a wait that ends unmet has a reason");
  }

  void arrive(std::unique_lock<std::mutex>& lock, int rank) {
    here_[static_cast<std::size_t>(rank)] = true;
    const std::int64_t round = round_;
    if (std::ranges::all_of(here_, [](bool here) { return here; })) {
      here_.assign(here_.size(), false);
      ++round_;
      const std::string complaint = disagreement();
      lock.unlock();
      if (!complaint.empty()) world_->stop(complaint);
      changed_.notify_all();
      return world_->check();
    }
    wait(
        lock, [&] { return round_ != round; },
        [&] {
          return fmt::format(
              "{} waited in {} for {}", name({rank}),
              to_text(offers_[static_cast<std::size_t>(rank)].call),
              name(missing()));
        });
    lock.unlock();
    world_->check();
  }

  /// World ranks of places in this team.
  std::string name(const std::vector<int>& places) const {
    std::vector<int> ranks;
    for (const int place : places)
      ranks.push_back(ranks_[static_cast<std::size_t>(place)]);
    return ranks_text(ranks);
  }
  std::vector<int> missing() const {
    std::vector<int> places;
    for (int place = 0; place < size(); ++place)
      if (!here_[static_cast<std::size_t>(place)]) places.push_back(place);
    return places;
  }

  /// Who asks for something else than rank 0 of the team; empty: nobody.
  std::string disagreement() const {
    for (int place = 1; place < size(); ++place) {
      const RankCall &first = offer(0).call, &other = offer(place).call;
      if (other == first) continue;
      return fmt::format("{} asks for {} where {} asks for {}", name({place}),
                         to_text(other), name({0}), to_text(first));
    }
    return {};
  }

  std::shared_ptr<ThreadWorld::Shared> world_;
  std::vector<int> ranks_;  // of the world
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Offer> offers_;
  std::vector<bool> here_;
  std::int64_t round_ = 0;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> mail_;
  std::map<int, std::shared_ptr<Team>> made_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Team> team, int rank, Device& device)
      : team_(std::move(team)), rank_(rank), device_(device) {}

  int rank() const override { return rank_; }
  int size() const override { return team_->size(); }

  void all_reduce(Lane lane, const Array& data, Reduction how) override {
    const RankCall call = all_reduce_call(data, how);
    together(lane, {call, data.data, data.data, {}, 0, 0}, [this, data, how] {
      const Part part = part_of(data.size);
      const std::int64_t at = part.from * bytes_of(data.dtype);
      std::vector<const std::byte*> from;
      std::vector<std::byte*> to;
      for (int other = 0; other < size(); ++other) {
        from.push_back(team_->offer(other).in + at);
        to.push_back(team_->offer(other).out + at);
      }
      combine(how, data.dtype, part.size, from, to);
    });
  }

  void all_gather(Lane lane, const Array& shard, const Array& whole) override {
    const RankCall call = all_gather_call(size(), shard, whole);
    together(lane, {call, shard.data, nullptr, {}, 0, 0}, [this, shard, whole] {
      const std::size_t bytes = bytes_in(shard);
      for (int other = 0; other < size(); ++other)
        copy(whole.data + static_cast<std::size_t>(other) * bytes,
             team_->offer(other).in, bytes);
    });
  }

  void reduce_scatter(Lane lane, const Array& whole,
                      const Array& shard) override {
    const RankCall call = reduce_scatter_call(size(), whole, shard);
    together(lane, {call, whole.data, nullptr, {}, 0, 0}, [this, shard] {
      const std::size_t at = static_cast<std::size_t>(rank_) * bytes_in(shard);
      std::vector<const std::byte*> from;
      for (int other = 0; other < size(); ++other)
        from.push_back(team_->offer(other).in + at);
      std::byte* const to = shard.data;
      combine(Reduction::sum, shard.dtype, shard.size, from, {&to, 1});
    });
  }

  void broadcast(Lane lane, const Array& data, int root) override {
    const RankCall call = broadcast_call(size(), data, root);
    together(lane, {call, data.data, nullptr, {}, 0, 0}, [this, data, root] {
      copy(data.data, team_->offer(root).in, bytes_in(data));
    });
  }

  void all_to_all(Lane lane, const Array& out,
                  std::vector<std::int64_t> out_counts, const Array& in,
                  std::vector<std::int64_t> in_counts) override {
    const RankCall call =
        all_to_all_call(size(), out, out_counts, in, in_counts);
    together(lane, {call, out.data, nullptr, std::move(out_counts), 0, 0},
             [this, in, counts = std::move(in_counts)] {
               receive_from_all(in, counts);
             });
  }

  void exchange(Lane lane, std::vector<Message> sends,
                std::vector<Message> receives) override {
    check_messages(size(), sends);
    check_messages(size(), receives);
    device_.enqueue(lane, [this, out = std::move(sends),
                           in = std::move(receives)] {
      team_->world().check();
      for (const Message& message : out)
        team_->post(
            rank_, message.peer,
            {message.data.data, message.data.data + bytes_in(message.data)});
      for (const Message& message : in) {
        const std::vector<std::byte> came = team_->take(message.peer, rank_);
        if (came.size() != bytes_in(message.data))
          fail(fmt::format("a message of {} bytes came where {} were awaited",
                           came.size(), bytes_in(message.data)));
        copy(message.data.data, came.data(), came.size());
      }
    });
  }

  void barrier(Lane lane) override {
    together(lane,
             {{CallKind::barrier, 0, {}, {}, 0}, nullptr, nullptr, {}, 0, 0},
             [] {});
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    device_.synchronize();
    team_->meet(
        rank_,
        {{CallKind::split, 0, {}, {}, 0}, nullptr, nullptr, {}, color, key});
    const auto [team, place] = team_->split(rank_);
    team_->part(rank_);
    team_->forget_splits();
    return std::make_unique<ThreadCommunicator>(team, place, device_);
  }

  void abort(const std::string& why) override { team_->world().stop(why); }

 private:
  struct Part {
    std::int64_t from, size;
  };
  /// This rank's share of the work on `size` elements.
  Part part_of(std::int64_t size) const {
    const std::int64_t ranks = team_->size();
    const std::int64_t from = size * rank_ / ranks;
    return {from, size * (rank_ + 1) / ranks - from};
  }

  template <class Work>
  void together(Lane lane, Offer offer, Work work) {
    device_.enqueue(lane,
                    [this, mine = std::move(offer), act = std::move(work)] {
                      team_->world().check();
                      team_->meet(rank_, mine);
                      act();
                      team_->part(rank_);
                    });
  }

  void receive_from_all(const Array& in,
                        const std::vector<std::int64_t>& counts) const {
    const std::int64_t width = bytes_of(in.dtype);
    std::byte* to = in.data;
    for (int other = 0; other < size(); ++other) {
      const Offer& sender = team_->offer(other);
      const std::int64_t sent = sender.counts[static_cast<std::size_t>(rank_)];
      const std::int64_t awaited = counts[static_cast<std::size_t>(other)];
      if (sent != awaited)
        fail(
            fmt::format("all_to_all: rank {} of the group sends {} elements "
                        "where rank {} awaits {}",
                        other, sent, rank_, awaited));
      const std::int64_t before =
          std::accumulate(sender.counts.begin(), sender.counts.begin() + rank_,
                          std::int64_t{0});
      copy(to, sender.in + before * width,
           static_cast<std::size_t>(sent * width));
      to += sent * width;
    }
  }

  [[noreturn]] void fail(const std::string& why) const {
    team_->world().stop(why);
    throw Error(why);
  }

  static void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes > 0) std::memmove(to, from, bytes);
  }

  std::shared_ptr<Team> team_;
  int rank_;
  Device& device_;
};

}  // namespace

void ThreadWorld::Shared::stop(const std::string& reason) {
  std::vector<std::shared_ptr<Team>> waiting;
  {
    const std::lock_guard lock(mutex);
    if (stopped) return;
    stopped = true;
    why = reason;
    for (const std::weak_ptr<Team>& team : teams)
      if (auto alive = team.lock()) waiting.push_back(std::move(alive));
  }
  for (const std::shared_ptr<Team>& team : waiting) team->wake();
}

ThreadWorld::ThreadWorld(int ranks, std::chrono::milliseconds timeout)
    : shared_(std::make_shared<Shared>()) {
  require(ranks >= 1, "a world has ranks");
  shared_->ranks = ranks;
  shared_->timeout = timeout;
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  shared_->all = std::make_shared<Team>(shared_, std::move(all));
  shared_->teams.push_back(shared_->all);
}

/// The team of all holds the world that holds it.
ThreadWorld::~ThreadWorld() { shared_->all.reset(); }

std::unique_ptr<Communicator> ThreadWorld::join(int rank, Device& device) {
  require(0 <= rank && rank < shared_->ranks, "a rank of the world");
  return std::make_unique<ThreadCommunicator>(shared_->all, rank, device);
}

}  // namespace ztplan
