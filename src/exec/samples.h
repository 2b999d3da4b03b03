// Which tokens each row of each micro-batch is: addressed by a global index
// alone, so that every layout of ranks trains on the same samples.
#pragma once

#include <cstdint>
#include <span>

#include "exec/token_source.h"

namespace ztplan {

/// The windows of a text in an order of their own each epoch.
class Samples {
 public:
  /// Window w is tokens w * sequence .. (w + 1) * sequence; its last is the
  /// next one's first. Throws `Error` when the text has not one window.
  Samples(TokenSource text, int sequence, std::uint64_t seed);

  int sequence() const { return sequence_; }
  std::int64_t per_epoch() const;
  /// Sample `index`, which counts through all epochs: `sequence` tokens, and
  /// for each the one that follows it.
  void read(std::int64_t index, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets) const;

 private:
  TokenSource text_;
  int sequence_;
  std::uint64_t seed_;
};

/// How samples are dealt: `data_ranks` * `micro_batch` divides `global_batch`.
struct Dealing {
  std::int64_t global_batch = 1;
  std::int64_t data_ranks = 1;
  std::int64_t micro_batch = 1;  // rows
};

struct MicroBatchPlace {
  std::int64_t step = 0;
  std::int64_t micro_batch = 0;  // of those of the step
  std::int64_t data_rank = 0;
};

/// The sample that is the first row; the others follow it:
/// step * global_batch + (micro_batch * data_ranks + data_rank) * rows.
std::int64_t first_sample(const Dealing& dealing, const MicroBatchPlace& place);

/// All rows of a micro-batch, [rows, sequence] each.
void read_micro_batch(const Samples& samples, const Dealing& dealing,
                      const MicroBatchPlace& place,
                      std::span<std::int32_t> tokens,
                      std::span<std::int32_t> targets);

}  // namespace ztplan
