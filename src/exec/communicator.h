// What ranks do together. The calls of one communicator are made by all its
// ranks in one order; each runs on a lane of the rank's device and may return
// before it is done. Buffers are the device's. Sums add in the order of ranks,
// in fp32, and round once to the dtype of the buffer: every rank, every
// implementation and every cut of a buffer gives the same bits.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "calibrate/kernels/array.h"
#include "step/step_graph.h"

namespace ztplan {

enum class Reduction { sum, maximum };

/// What one rank sends to, or receives from, `peer`.
struct Message {
  int peer = 0;
  Array data;
};

class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// In place.
  virtual void all_reduce(Lane lane, const Array& data, Reduction how) = 0;
  /// `whole` is size() shards in the order of ranks; `shard` may be its own
  /// place in it.
  virtual void all_gather(Lane lane, const Array& shard,
                          const Array& whole) = 0;
  /// The sum of every rank's `whole`, of which each keeps its own shard;
  /// `shard` may be its own place in `whole`, the rest of which is left as it
  /// was.
  virtual void reduce_scatter(Lane lane, const Array& whole,
                              const Array& shard) = 0;
  virtual void broadcast(Lane lane, const Array& data, int root) = 0;
  /// Element counts by peer; data lie in the order of peers.
  virtual void all_to_all(Lane lane, const Array& out,
                          std::vector<std::int64_t> out_counts, const Array& in,
                          std::vector<std::int64_t> in_counts) = 0;
  /// Grouped sends and receives: none waits for another of the group. A send
  /// does not wait for its receiver.
  virtual void exchange(Lane lane, std::vector<Message> sends,
                        std::vector<Message> receives) = 0;
  virtual void barrier(Lane lane) = 0;

  /// Ranks of equal `color` form a new communicator, ordered by `key`, then by
  /// rank. Collective; returns when it is there.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// Makes every rank of every communicator that came from the same world fail
  /// with `Error(why)` in the call it waits in or makes next. From any thread.
  virtual void abort(const std::string& why) = 0;
};

}  // namespace ztplan
