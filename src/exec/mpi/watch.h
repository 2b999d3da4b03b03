// Who is still there of a world of processes, and how it ends before its time.
#pragma once

#include <mpi.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exec/process_world.h"

namespace ztplan {

class Watch {
 public:
  /// Collective over MPI_COMM_WORLD.
  explicit Watch(Vigil vigil);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::chrono::milliseconds patience() const { return vigil_.patience; }

  /// For whoever waits, as often as it likes and from any thread: ends this
  /// process when a rank has told that it ends, or is gone.
  void look();
  /// Ends this process, for `ranks` have not come within the patience.
  [[noreturn]] void give_up(std::vector<int> ranks);
  /// For as long as the world lives.
  void keep(std::shared_ptr<const void> thing);
  /// As ProcessWorld::end.
  [[noreturn]] void end(int exit_code, const std::string& why);

 private:
  struct Cause {
    int exit_code = 0;
    std::string why;
  };
  std::optional<Cause> find_cause();
  std::optional<Cause> hear();
  std::optional<Cause> miss();
  [[noreturn]] void say_and_leave(const Cause& cause);
  [[noreturn]] void leave(const Cause& cause);

  Vigil vigil_;
  MPI_Comm comm_ = MPI_COMM_NULL;  // of notices alone
  int rank_ = 0, size_ = 1;
  std::mutex mutex_;  // never released by who ends the process
  std::chrono::steady_clock::time_point next_look_;
  std::vector<int> processes_;  // descriptors, by rank; -1: not watched
  std::vector<bool> silent_;    // by rank: it has told its end, or is gone
  std::vector<std::shared_ptr<const void>> kept_;
};

}  // namespace ztplan
