#include "step/schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>

#include "strategy/stages.h"

using namespace ztplan;

namespace {

Strategy pipeline_of(int pipeline, int virtual_stages, Schedule schedule) {
  Strategy s;
  s.pipeline = pipeline;
  s.virtual_stages = virtual_stages;
  s.schedule = schedule;
  return s;
}

/// "F0 F1 B0 ..." with the chunk after a dot when there are several.
std::string told(const Strategy& strategy, int stage, int micro_batches) {
  std::string text;
  for (const Pass& pass : schedule(strategy, stage, micro_batches)) {
    text += pass.direction == Direction::forward ? "F" : "B";
    text += std::to_string(pass.micro_batch);
    if (strategy.virtual_stages > 1) text += "." + std::to_string(pass.chunk);
    text += " ";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

int most_held(const Strategy& strategy, int stage, int micro_batches) {
  int held = 0, most = 0;
  for (const Pass& pass : schedule(strategy, stage, micro_batches)) {
    held += pass.direction == Direction::forward ? 1 : -1;
    most = std::max(most, held);
  }
  return most;
}

}  // namespace

TEST_CASE("a stage runs its passes in the order its schedule names") {
  const Strategy gpipe = pipeline_of(2, 1, Schedule::gpipe);
  CHECK(told(gpipe, 0, 3) == "F0 F1 F2 B0 B1 B2");
  // arXiv 2104.04473, figure 4 top: four stages, the second one.
  const Strategy plain = pipeline_of(4, 1, Schedule::one_f_one_b);
  CHECK(told(plain, 1, 4) == "F0 F1 F2 B0 F3 B1 B2 B3");
  CHECK(told(plain, 3, 3) == "F0 B0 F1 B1 F2 B2");
  CHECK(told(plain, 0, 2) == "F0 F1 B0 B1");
  // The same figure, bottom: two chunks on each of two stages.
  const Strategy two = pipeline_of(2, 2, Schedule::interleaved);
  CHECK(told(two, 1, 2) == "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0");
  CHECK(told(two, 0, 2) == "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0");
}

TEST_CASE(
    "every chunk of every micro-batch runs once each way, forward first") {
  for (const auto kind :
       {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved})
    for (const int p : {2, 3, 4, 8})
      for (const int rounds : {1, 2, 5}) {
        const int v = kind == Schedule::interleaved ? 3 : 1;
        const Strategy s = pipeline_of(p, v, kind);
        const int m = p * rounds;
        for (int stage = 0; stage < p; ++stage) {
          std::map<std::pair<int, int>, int> state;
          for (const Pass& pass : schedule(s, stage, m)) {
            int& seen = state[{pass.micro_batch, pass.chunk}];
            REQUIRE(seen == (pass.direction == Direction::forward ? 0 : 1));
            ++seen;
          }
          REQUIRE(state.size() == static_cast<std::size_t>(m * v));
        }
      }
}

TEST_CASE("the schedule holds as many chunks as the ledger counts") {
  for (const auto kind :
       {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved})
    for (const int p : {1, 2, 4, 7})
      for (const int rounds : {1, 2, 3, 6}) {
        const int v = kind == Schedule::interleaved ? 2 : 1;
        const Strategy s = pipeline_of(p, v, kind);
        for (int stage = 0; stage < p; ++stage)
          CHECK(most_held(s, stage, p * rounds) ==
                chunks_in_flight(s, stage, p * rounds));
      }
}
