// Ranks as threads of one process. They read each other's buffers; every sum is
// made in the order of ranks (exec/rank_sum.h). A rank that fails, stalls or
// asks for something else than the others ends the call of all.
#pragma once

#include <chrono>
#include <memory>

#include "exec/communicator.h"
#include "exec/device.h"

namespace ztplan {

/// What the ranks of one process share. Outlives their communicators.
class ThreadWorld {
 public:
  /// A call that some rank does not come to fails after `timeout`.
  ThreadWorld(int ranks, std::chrono::milliseconds timeout);
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;

  /// The communicator of rank `rank`, whose calls run on lanes of `device`.
  std::unique_ptr<Communicator> join(int rank, Device& device);

  struct Shared;

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace ztplan
