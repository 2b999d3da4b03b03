// Ranks as threads of one process: each reads the buffers of its peers. Needs
// nothing but a processor, and is the measure of every other communicator.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "exec/communicator.h"
#include "exec/device.h"

namespace ztplan {

class RankMeeting;

/// Shared by the threads; communicators may outlive it.
class ThreadWorld {
 public:
  /// A rank that waits for others longer than `timeout` makes all of them fail
  /// and names who is missing.
  ThreadWorld(int ranks, std::chrono::milliseconds timeout);

  /// The world as `rank` sees it, whose work runs on lanes of `device`. Called
  /// once a rank, from its thread, which makes all of its calls; the device
  /// lives as long as the communicator and its splits. Memory of a call stays
  /// until its lane has done it.
  std::unique_ptr<Communicator> join(int rank, Device& device);

  /// As `Communicator::abort`.
  void abort(const std::string& why);
  int size() const;

 private:
  std::shared_ptr<RankMeeting> meeting_;
};

/// Runs `work(rank)` on a thread for each rank of `world`, and returns when all
/// are done. A rank that throws makes the others fail; what it threw is thrown.
void run_ranks(ThreadWorld& world, const std::function<void(int)>& work);

}  // namespace ztplan
