#include "exec/rank_meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ztplan {
namespace {

/// The first pair of ranks of which one sends what the other does not expect.
std::optional<std::string> odd_counts(std::span<const RankPart> parts) {
  for (std::size_t from = 0; from < parts.size(); ++from) {
    for (std::size_t to = 0; to < parts.size(); ++to) {
      const std::int64_t sent = parts[from].out_counts[to];
      const std::int64_t expected = parts[to].in_counts[from];
      if (sent != expected)
        return fmt::format("rank {} sends {} to rank {}, which expects {}",
                           from, sent, to, expected);
    }
  }
  return std::nullopt;
}

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{} s", static_cast<double>(time.count()) / 1e3);
}

}  // namespace

void RankWorld::abort(const std::string& why) {
  const std::lock_guard lock(mutex_);
  abort_locked(why);
}

void RankWorld::check() const {
  const std::lock_guard lock(mutex_);
  check_locked();
}

void RankWorld::abort_locked(const std::string& why) {
  if (!why_) why_ = why;
  for (const auto& weak : meetings_)
    if (const auto meeting = weak.lock()) meeting->changed_.notify_all();
}

void RankWorld::check_locked() const {
  if (why_) throw Mishap(*why_);
}

void RankWorld::fail_locked(const std::string& why) {
  abort_locked(why);
  throw Mishap(*why_);
}

/// Whole once all have arrived; then nobody leaves before all are done, for
/// each reads the memory of the others.
struct RankMeeting::Place {
  RankCall call;
  int first_rank = 0;
  std::vector<RankPart> parts;
  std::vector<bool> here;
  std::size_t arrived = 0, done = 0;
};

std::shared_ptr<RankMeeting> RankMeeting::make(
    const std::shared_ptr<RankWorld>& world, std::vector<int> members) {
  std::shared_ptr<RankMeeting> made(new RankMeeting(world, std::move(members)));
  const std::lock_guard lock(world->mutex_);
  std::erase_if(world->meetings_,
                [](const auto& meeting) { return meeting.expired(); });
  world->meetings_.push_back(made);
  return made;
}

std::string RankMeeting::name() const {
  return fmt::format("communicator of {}", ranks_text(members_));
}

std::string RankMeeting::missing(const Place& place) const {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (!place.here[i]) ranks.push_back(members_[i]);
  return ranks_text(ranks);
}

/// The lower rank is named first, whoever came first.
std::string RankMeeting::difference(const Place& place, int rank,
                                    std::int64_t number,
                                    const RankCall& call) const {
  std::pair<int, RankCall> one{world_rank(place.first_rank), place.call};
  std::pair<int, RankCall> other{world_rank(rank), call};
  if (other.first < one.first) std::swap(one, other);
  return fmt::format(
      "{}, call {}: rank {} asks for {} where rank {} asks for {}", name(),
      number, one.first, to_text(one.second), other.first,
      to_text(other.second));
}

/// Whether it became ready in time. Throws once aborted and not ready.
template <class Ready>
bool RankMeeting::wait_locked(std::unique_lock<std::mutex>& lock,
                              const Ready& ready) {
  const bool woken = changed_.wait_for(lock, world_->timeout_, [&] {
    return ready() || world_->why_.has_value();
  });
  if (woken && !ready()) world_->check_locked();
  return woken;
}

std::string RankMeeting::what(std::int64_t number, const RankCall& call) const {
  return fmt::format("{}, call {}, {}", name(), number, to_text(call));
}

void RankMeeting::check_counts(const Place& place, std::int64_t number) {
  if (place.call.kind != CallKind::all_to_all) return;
  if (const auto odd = odd_counts(place.parts))
    world_->fail_locked(fmt::format("{}: {}", what(number, place.call), *odd));
}

std::shared_ptr<RankMeeting::Place> RankMeeting::arrive(int rank,
                                                        std::int64_t number,
                                                        const RankCall& call,
                                                        RankPart part) {
  world_->check_locked();
  std::shared_ptr<Place>& place = places_[number];
  if (!place) {
    place = std::make_shared<Place>();
    place->call = call;
    place->first_rank = rank;
    place->parts.resize(members_.size());
    place->here.resize(members_.size());
  }
  if (place->call != call)
    world_->fail_locked(difference(*place, rank, number, call));
  place->parts[static_cast<std::size_t>(rank)] = std::move(part);
  place->here[static_cast<std::size_t>(rank)] = true;
  if (place->arrived + 1 == members_.size()) check_counts(*place, number);
  ++place->arrived;
  return place;
}

void RankMeeting::meet(int rank, std::int64_t number, const RankCall& call,
                       RankPart part, const Act& act) {
  std::unique_lock lock(world_->mutex_);
  const auto place = arrive(rank, number, call, std::move(part));
  const auto complete = [&] { return place->arrived == members_.size(); };
  if (complete()) {
    places_.erase(number);
    changed_.notify_all();
  } else if (!wait_locked(lock, complete)) {
    world_->fail_locked(fmt::format("{}: {} did not come within {}",
                                    what(number, call), missing(*place),
                                    seconds_text(world_->timeout_)));
  }
  lock.unlock();
  act(place->parts);
  lock.lock();
  if (++place->done == members_.size()) changed_.notify_all();
  changed_.wait(lock, [&] { return place->done == members_.size(); });
}

void RankMeeting::post(const MessagePlace& place, const Array& data) {
  Letter letter{
      std::vector<std::byte>(data.data, data.data + bytes_in(data).value),
      {nullptr, data.size, data.dtype}};
  const std::lock_guard lock(world_->mutex_);
  world_->check_locked();
  letters_[place] = std::move(letter);
  changed_.notify_all();
}

void RankMeeting::fetch(const MessagePlace& place, const Array& data) {
  std::unique_lock lock(world_->mutex_);
  world_->check_locked();
  const auto what = [&] {
    return fmt::format("{}: rank {} waits for message {} of {} {} from rank {}",
                       name(), world_rank(place.to), place.number, data.size,
                       to_text(data.dtype), world_rank(place.from));
  };
  if (!wait_locked(lock, [&] { return letters_.contains(place); }))
    world_->fail_locked(fmt::format("{}, which did not come within {}", what(),
                                    seconds_text(world_->timeout_)));
  const Letter letter = std::move(letters_.extract(place).mapped());
  if (letter.form.size != data.size || letter.form.dtype != data.dtype)
    world_->fail_locked(fmt::format("{}, which sent {} {}", what(),
                                    letter.form.size,
                                    to_text(letter.form.dtype)));
  lock.unlock();
  std::ranges::copy(letter.bytes, data.data);
}

}  // namespace ztplan
