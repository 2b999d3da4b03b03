#include "exec/lane_threads.h"

#include <algorithm>
#include <utility>

namespace ztplan {

LaneThreads::LaneThreads() {
  threads_.reserve(kLanes);
  for (std::size_t lane = 0; lane < kLanes; ++lane)
    threads_.emplace_back([this, lane] { run(lane); });
}

LaneThreads::~LaneThreads() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void LaneThreads::enqueue(Lane lane, std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queues_[static_cast<std::size_t>(lane)].push_back(std::move(work));
  }
  changed_.notify_all();
}

EventId LaneThreads::record(Lane lane) {
  std::size_t event = 0;
  {
    const std::lock_guard lock(mutex_);
    event = happened_.size();
    happened_.push_back(false);
  }
  enqueue(lane, [this, event] {
    {
      const std::lock_guard lock(mutex_);
      happened_[event] = true;
    }
    changed_.notify_all();
  });
  return static_cast<EventId>(event);
}

void LaneThreads::wait(Lane lane, EventId event) {
  enqueue(lane, [this, event] {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return happened_[static_cast<std::size_t>(event)] || failure_ != nullptr;
    });
  });
}

void LaneThreads::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] {
    return std::ranges::all_of(queues_,
                               [](const auto& q) { return q.empty(); }) &&
           std::ranges::none_of(busy_, [](bool busy) { return busy; });
  });
  happened_.assign(happened_.size(), true);
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

void LaneThreads::perform(const std::function<void()>& work) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ != nullptr) return;
  }
  try {
    work();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr) failure_ = std::current_exception();
  }
}

void LaneThreads::run(std::size_t lane) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stops_ || !queues_[lane].empty(); });
    if (queues_[lane].empty()) return;
    const std::function<void()> work = std::move(queues_[lane].front());
    queues_[lane].pop_front();
    busy_[lane] = true;
    lock.unlock();
    perform(work);
    lock.lock();
    busy_[lane] = false;
    changed_.notify_all();
  }
}

}  // namespace ztplan
