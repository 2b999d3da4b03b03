// Messages of bytes between the ranks of one communicator, and waiting for
// them.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "exec/communicator.h"
#include "exec/mpi/watch.h"

namespace ztplan {

/// Messages on their way.
struct Pending {
  std::vector<MPI_Request> requests;
  std::vector<int> peers;  // ranks of the world, of each
};

class Mail {
 public:
  /// `comm` is its own to free.
  Mail(MPI_Comm comm, Watch& watch);
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;
  ~Mail();

  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Buffers stay until `wait`, which returns when all is done.
  void send(Pending& pending, const Array& data, int peer, int tag) const;
  void receive(Pending& pending, const Array& data, int peer, int tag) const;
  void wait(Pending& pending) const;

  /// Each of `out` to its peer, each of `in` from its peer, both by rank; what
  /// a rank sends itself is copied.
  void swap(const std::vector<Array>& out, const std::vector<Array>& in,
            int tag) const;

  /// Sends a copy and does not wait; forgets copies that have arrived.
  void post(const Array& data, int peer, int tag);

 private:
  struct Letter {
    std::vector<std::byte> bytes;
    Pending pending;
  };
  bool is_done(Pending& pending) const;
  std::vector<int> late(Pending& pending) const;

  MPI_Comm comm_;
  Watch& watch_;
  int rank_ = 0, size_ = 1;
  std::vector<int> world_ranks_;
  std::mutex mutex_;
  const std::shared_ptr<std::list<Letter>> letters_ =
      std::make_shared<std::list<Letter>>();
};

}  // namespace ztplan
