#include "exec/samples.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/messages.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

using Tokens = std::vector<std::int32_t>;

/// A text whose tokens tell where they stand: 0, 1, 2, ..
class Counting {
 public:
  Samples samples(int tokens, int sequence, std::uint64_t seed) const {
    Tokens text;
    for (int i = 0; i < tokens; ++i) text.push_back(i);
    write_token_shard(folder_.file("a.bin"), text);
    return {TokenSource::open({folder_.file("a.bin")}, tokens), sequence, seed};
  }

 private:
  TemporaryDirectory folder_;
};

struct Sample {
  Tokens tokens, targets;
  bool operator==(const Sample&) const = default;
};

Sample read(const Samples& samples, std::int64_t index) {
  const auto width = static_cast<std::size_t>(samples.sequence());
  Sample sample{Tokens(width), Tokens(width)};
  samples.read(index, sample.tokens, sample.targets);
  return sample;
}

}  // namespace

TEST_CASE("a target is the token that follows") {
  const Samples samples = Counting().samples(21, 4, 0);
  CHECK(samples.per_epoch() == 5);
  for (int index = 0; index < 15; ++index) {
    const Sample sample = read(samples, index);
    CHECK(sample.tokens[0] % 4 == 0);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(sample.tokens[i] == sample.tokens[0] + static_cast<int>(i));
      CHECK(sample.targets[i] == sample.tokens[i] + 1);
    }
  }
}

TEST_CASE("the last window needs the token after it") {
  struct Row {
    int tokens, windows;
  };
  for (const Row& row : {Row{5, 1}, Row{8, 1}, Row{9, 2}, Row{12, 2}}) {
    CAPTURE(row.tokens);
    CHECK(Counting().samples(row.tokens, 4, 0).per_epoch() == row.windows);
  }
  CHECK(refusal([] { Counting().samples(4, 4, 0); }) ==
        "the text has 4 tokens, a sample needs 5");
}

TEST_CASE("an epoch reads every window once, in an order of its own") {
  const Samples samples = Counting().samples(401, 4, 9);
  std::vector<Tokens> firsts;
  for (int epoch = 0; epoch < 2; ++epoch) {
    Tokens& starts = firsts.emplace_back();
    for (int i = 0; i < 100; ++i) {
      starts.push_back(read(samples, epoch * 100 + i).tokens[0]);
    }
    Tokens sorted = starts;
    std::ranges::sort(sorted);
    for (int i = 0; i < 100; ++i) {
      CHECK(sorted[static_cast<std::size_t>(i)] == 4 * i);
    }
    CHECK(starts != sorted);
  }
  CHECK(firsts[0] != firsts[1]);
  CHECK(firsts[0][0] != read(Counting().samples(401, 4, 10), 0).tokens[0]);
}

TEST_CASE("every layout trains on the same samples in a step") {
  const Samples samples = Counting().samples(1001, 4, 1);
  constexpr std::int64_t kBatch = 24, kStep = 7;
  std::vector<Sample> expected;
  for (std::int64_t i = 0; i < kBatch; ++i) {
    expected.push_back(read(samples, kStep * kBatch + i));
  }
  for (const Dealing& dealing :
       {Dealing{kBatch, 1, 1}, Dealing{kBatch, 1, 24}, Dealing{kBatch, 2, 3},
        Dealing{kBatch, 4, 2}, Dealing{kBatch, 24, 1}}) {
    std::vector<Sample> got;
    const std::int64_t ranks = dealing.data_ranks;
    const std::int64_t rows = dealing.micro_batch;
    CAPTURE(ranks);
    CAPTURE(rows);
    for (std::int64_t i = 0; i < kBatch / rows; ++i) {
      Tokens tokens(static_cast<std::size_t>(rows * 4)), targets(tokens);
      read_micro_batch(samples, dealing, {kStep, i / ranks, i % ranks}, tokens,
                       targets);
      for (std::int64_t row = 0; row < rows; ++row) {
        got.push_back(
            {{tokens.begin() + row * 4, tokens.begin() + row * 4 + 4},
             {targets.begin() + row * 4, targets.begin() + row * 4 + 4}});
      }
    }
    CHECK(got == expected);
  }
}

TEST_CASE("rows are dealt as the formula says") {
  // t * global + (j * D + r) * b
  CHECK(first_sample({64, 4, 2}, {0, 0, 0}) == 0);
  CHECK(first_sample({64, 4, 2}, {0, 0, 3}) == 6);
  CHECK(first_sample({64, 4, 2}, {0, 5, 1}) == 42);
  CHECK(first_sample({64, 4, 2}, {3, 5, 1}) == 234);
  CHECK_THROWS_AS(first_sample({64, 4, 2}, {0, 8, 0}), Bug);
  CHECK_THROWS_AS(first_sample({64, 4, 3}, {0, 0, 0}), Bug);
}
