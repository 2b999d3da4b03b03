// Ranks as processes that a launcher started, joined by MPI: mpirun, or srun
// and others that speak its PMI. Every call is made of messages between two
// ranks, numbered when the call is made; a sum goes to the rank that owns a
// share of the buffer, is added there in the order of ranks by exec/rank_sum,
// and goes back. So it has the bits of ranks as threads, which an MPI_Allreduce
// does not promise. What ranks ask for is not compared.
//
// Nobody waits for ever. A rank that fails tells the others why; one whose
// process is gone is missed by those of its machine; one that does not come
// within the patience is named. Each that waits then says so, and all end.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "exec/communicator.h"
#include "exec/device.h"

namespace ztplan {

class ProcessWorld {
 public:
  ProcessWorld() = default;
  ProcessWorld(const ProcessWorld&) = delete;
  ProcessWorld& operator=(const ProcessWorld&) = delete;
  /// Waits for the others; all that was joined is gone before.
  virtual ~ProcessWorld() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The world as this rank sees it, whose work runs on lanes of `device`,
  /// which lives longer. Its `abort` is `end` with the exit code 1.
  virtual std::unique_ptr<Communicator> join(Device& device) = 0;
  /// Ends every process of the world for `why`, which this one has said, and
  /// this one with `exit_code`. Gives others a moment to say it as well. Never
  /// returns.
  virtual void end(int exit_code, const std::string& why) = 0;
};

struct Vigil {
  std::chrono::milliseconds patience{};  // for ranks that do not come
  /// Says why the world ends, where another rank is the cause: once, from any
  /// thread. The process ends after it.
  std::function<void(const std::string& why)> farewell;
};

/// Joins the processes started together; once a process. A process that nobody
/// started so is a world of one. Throws `Error` in a program built without MPI.
std::unique_ptr<ProcessWorld> open_process_world(const Vigil& vigil);

}  // namespace ztplan
