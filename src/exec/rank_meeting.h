// Where the threads of one communicator meet: a place for each collective call,
// by its number, and a box for each message. Nobody waits for ever: an abort
// wakes all that wait, and who waits too long aborts and says for whom it was.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/rank_call.h"

namespace ztplan {

class RankMeeting;

/// What all meetings of one world share: a lock, a patience, and the reason
/// that ended it.
class RankWorld {
 public:
  explicit RankWorld(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  /// Every call waiting or to come throws `Error(why)`; the first reason stays.
  void abort(const std::string& why);
  /// Throws once aborted.
  void check() const;

 private:
  friend class RankMeeting;
  void abort_locked(const std::string& why);
  void check_locked() const;
  [[noreturn]] void fail_locked(const std::string& why);

  const std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::optional<std::string> why_;
  std::vector<std::weak_ptr<RankMeeting>> meetings_;
};

/// What a rank brings to a collective call.
struct RankPart {
  Array out{}, in{};  // what it gives, where its share goes
  std::vector<std::int64_t> out_counts{}, in_counts{};  // of an all_to_all
  int color = 0, key = 0;                               // of a split
  std::shared_ptr<RankMeeting> made{};  // of a split's second half
};

/// One message's place: from, to, and the number of it between the two.
struct MessagePlace {
  int from = 0, to = 0;
  std::int64_t number = 0;
  auto operator<=>(const MessagePlace&) const = default;
};

class RankMeeting {
 public:
  /// Of the world's ranks `members`, in the order of this communicator.
  static std::shared_ptr<RankMeeting> make(
      const std::shared_ptr<RankWorld>& world, std::vector<int> members);

  const std::vector<int>& members() const { return members_; }
  RankWorld& world() { return *world_; }
  const std::shared_ptr<RankWorld>& shared_world() { return world_; }

  /// What a rank does to the parts of all once they are there; returns when
  /// every rank has done so. It shall not throw.
  using Act = std::function<void(std::span<RankPart> parts)>;
  /// Call `number` of `rank`. Throws `Error` on all ranks when one asks for
  /// something else, does not come, or brings counts that do not fit.
  void meet(int rank, std::int64_t number, const RankCall& call, RankPart part,
            const Act& act);

  /// Does not wait.
  void post(const MessagePlace& place, const Array& data);
  void fetch(const MessagePlace& place, const Array& data);

 private:
  struct Place;
  struct Letter {
    std::vector<std::byte> bytes;
    Array form;  // its size and dtype
  };
  RankMeeting(std::shared_ptr<RankWorld> world, std::vector<int> members)
      : world_(std::move(world)), members_(std::move(members)) {}

  std::string name() const;
  int world_rank(int member) const {
    return members_[static_cast<std::size_t>(member)];
  }
  std::shared_ptr<Place> arrive(int rank, std::int64_t number,
                                const RankCall& call, RankPart part);
  std::string what(std::int64_t number, const RankCall& call) const;
  void check_counts(const Place& place, std::int64_t number);
  std::string difference(const Place& place, int rank, std::int64_t number,
                         const RankCall& call) const;
  std::string missing(const Place& place) const;
  template <class Ready>
  bool wait_locked(std::unique_lock<std::mutex>& lock, const Ready& ready);

  const std::shared_ptr<RankWorld> world_;
  const std::vector<int> members_;
  std::condition_variable changed_;
  std::map<std::int64_t, std::shared_ptr<Place>> places_;
  std::map<MessagePlace, Letter> letters_;
  friend class RankWorld;
};

}  // namespace ztplan
