// One thread a lane: work in order, events between lanes, and the first failure
// kept for whoever asks.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "exec/device.h"

namespace ztplan {

class LaneThreads {
 public:
  LaneThreads();
  /// Finishes what was given.
  ~LaneThreads();
  LaneThreads(const LaneThreads&) = delete;
  LaneThreads& operator=(const LaneThreads&) = delete;

  void enqueue(Lane lane, std::function<void()> work);
  EventId record(Lane lane);
  void wait(Lane lane, EventId event);
  /// Until every lane is idle. Throws the first failure; work after a failure
  /// is dropped.
  void synchronize();

 private:
  void run(std::size_t lane);
  void perform(const std::function<void()>& work);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::deque<std::function<void()>>, kLanes> queues_;
  std::array<bool, kLanes> busy_{};
  std::vector<bool> happened_;  // by event
  std::exception_ptr failure_;
  bool stops_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ztplan
