// What ranks do together, made of messages.
#pragma once

#include <memory>
#include <vector>

#include "exec/device.h"
#include "exec/mpi/mail.h"

namespace ztplan {

class ProcessCommunicator final : public Communicator {
 public:
  /// `comm` is its own to free; the others live longer.
  ProcessCommunicator(MPI_Comm comm, Watch& watch, Device& device);

  int rank() const override { return mail_->rank(); }
  int size() const override { return mail_->size(); }
  void all_reduce(Lane lane, const Array& data, Reduction how) override;
  void all_gather(Lane lane, const Array& shard, const Array& whole) override;
  void reduce_scatter(Lane lane, const Array& whole,
                      const Array& shard) override;
  void broadcast(Lane lane, const Array& data, int root) override;
  void all_to_all(Lane lane, const Array& out,
                  std::vector<std::int64_t> out_counts, const Array& in,
                  std::vector<std::int64_t> in_counts) override;
  void exchange(Lane lane, std::vector<Message> sends,
                std::vector<Message> receives) override;
  void barrier(Lane lane) override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  void abort(const std::string& why) override;

 private:
  template <class Act>
  void call(Lane lane, Act act);

  const std::shared_ptr<Mail> mail_;
  Watch& watch_;
  Device& device_;
  std::int64_t calls_ = 0;
  std::vector<std::int64_t> sent_, received_;  // messages, by peer
};

}  // namespace ztplan
