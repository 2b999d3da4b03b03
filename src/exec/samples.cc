#include "exec/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "exec/random.h"

namespace ztplan {

Samples::Samples(TokenSource text, int sequence, std::uint64_t seed)
    : text_(std::move(text)), sequence_(sequence), seed_(seed) {
  require(sequence >= 1, "a sequence has tokens");
  if (per_epoch() < 1) {
    throw Error(fmt::format("the text has {} tokens, a sample needs {}",
                            text_.size(), sequence + 1),
                "give a longer text, or train on shorter sequences");
  }
}

std::int64_t Samples::per_epoch() const {
  return (text_.size() - 1) / sequence_;
}

void Samples::read(std::int64_t index, std::span<std::int32_t> tokens,
                   std::span<std::int32_t> targets) const {
  require(std::ssize(tokens) == sequence_ && std::ssize(targets) == sequence_,
          "a sample fills its row");
  const std::int64_t window =
      permute(index % per_epoch(), per_epoch(), seed_, index / per_epoch());
  text_.copy(window * sequence_, tokens);
  std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
  text_.copy((window + 1) * sequence_, targets.last(1));
}

std::int64_t first_sample(const Dealing& dealing,
                          const MicroBatchPlace& place) {
  const auto [batch, ranks, rows] = dealing;
  require(batch % (ranks * rows) == 0, "micro-batches make up the batch");
  require(place.data_rank < ranks && place.micro_batch < batch / (ranks * rows),
          "a micro-batch is one of its step");
  return place.step * batch +
         (place.micro_batch * ranks + place.data_rank) * rows;
}

void read_micro_batch(const Samples& samples, const Dealing& dealing,
                      const MicroBatchPlace& place,
                      std::span<std::int32_t> tokens,
                      std::span<std::int32_t> targets) {
  const std::int64_t first = first_sample(dealing, place);
  const auto width = static_cast<std::size_t>(samples.sequence());
  for (std::int64_t row = 0; row < dealing.micro_batch; ++row) {
    const std::size_t at = static_cast<std::size_t>(row) * width;
    samples.read(first + row, tokens.subspan(at, width),
                 targets.subspan(at, width));
  }
}

}  // namespace ztplan
