#include "strategy/schedule.h"

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

const char* letter(PassPart part) {
  switch (part) {
    case PassPart::forward:
      return "F";
    case PassPart::backward:
      return "BW";
    case PassPart::inputs:
      break;
    case PassPart::weights:
      return "W";
  }
  return "B";
}

/// "F0 F1 BW0 ..." with the chunk after a dot when there are several.
std::string told(const Strategy& strategy, int stage, int micro_batches) {
  std::string text;
  for (const Pass& pass : schedule(strategy, stage, micro_batches)) {
    text += letter(pass.part) + std::to_string(pass.micro_batch);
    if (strategy.virtual_stages > 1) text += "." + std::to_string(pass.chunk);
    text += " ";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

/// Chunks whose forward has run and whose gradients, all of them or those of
/// the inputs, have not.
int most_held(const Strategy& strategy, int stage, int micro_batches,
              PassPart until) {
  int held = 0, most = 0;
  for (const Pass& pass : schedule(strategy, stage, micro_batches)) {
    if (pass.part == PassPart::forward) ++held;
    if (pass.part == PassPart::backward || pass.part == until) --held;
    most = std::max(most, held);
  }
  return most;
}

}  // namespace

TEST_CASE("a stage runs its passes in the order its schedule names") {
  const Strategy gpipe = pipeline_of(2, 1, Schedule::gpipe);
  CHECK(told(gpipe, 0, 3) == "F0 F1 F2 BW0 BW1 BW2");
  // arXiv 2104.04473, figure 4 top: four stages, the second one.
  const Strategy plain = pipeline_of(4, 1, Schedule::one_f_one_b);
  CHECK(told(plain, 1, 4) == "F0 F1 F2 BW0 F3 BW1 BW2 BW3");
  CHECK(told(plain, 3, 3) == "F0 BW0 F1 BW1 F2 BW2");
  CHECK(told(plain, 0, 2) == "F0 F1 BW0 BW1");
  // The same figure, bottom: two chunks on each of two stages.
  const Strategy two = pipeline_of(2, 2, Schedule::interleaved);
  CHECK(told(two, 1, 2) == "F0.0 F1.0 F0.1 BW0.1 F1.1 BW1.1 BW0.0 BW1.0");
  CHECK(told(two, 0, 2) == "F0.0 F1.0 F0.1 F1.1 BW0.1 BW1.1 BW0.0 BW1.0");
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
            REQUIRE(seen == (pass.part == PassPart::forward ? 0 : 1));
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
          CHECK(most_held(s, stage, p * rounds, PassPart::backward) ==
                chunks_in_flight(s, stage, p * rounds));
      }
}

TEST_CASE("weights fill the gaps of a split backward as the figure shows") {
  // arXiv 2401.10241, figure 3: four stages, eight micro-batches; top ZB-H1,
  // bottom ZB-H2.
  const Strategy h1 = pipeline_of(4, 1, Schedule::zb_h1);
  CHECK(told(h1, 0, 8).starts_with("F0 F1 F2 F3 B0 W0 F4 B1 W1 F5 B2 W2"));
  CHECK(told(h1, 3, 8).starts_with("F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1"));
  CHECK(told(h1, 3, 8).ends_with("F7 B7 W4 W5 W6 W7"));
  CHECK(told(h1, 0, 8).ends_with("F7 B4 W4 B5 W5 B6 W6 B7 W7"));
  const Strategy h2 = pipeline_of(4, 1, Schedule::zb_h2);
  CHECK(told(h2, 0, 8).starts_with("F0 F1 F2 F3 F4 F5 F6 B0 W0 F7 B1 W1"));
  CHECK(
      told(h2, 3, 8).starts_with("F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 "
                                 "W0 F7 B7 W1"));
}

TEST_CASE("weights come once, after their backward, and that after forward") {
  for (const auto kind :
       {Schedule::zb_h1, Schedule::zb_h2, Schedule::zb_v, Schedule::dualpipe_v})
    for (const int p : {2, 3, 4, 8})
      for (const int m : {p, 2 * p, 3 * p, 7 * p})
        for (const int v : {1, 2, 3}) {
          const bool is_v =
              kind == Schedule::zb_v || kind == Schedule::dualpipe_v;
          if (is_v != (v == 2) && kind != Schedule::zb_h1) continue;
          if (v > 1 && kind == Schedule::zb_h2) continue;
          if (m < 2 * p && kind == Schedule::dualpipe_v) continue;
          const Strategy s = pipeline_of(p, v, kind);
          for (int stage = 0; stage < p; ++stage) {
            std::map<std::pair<int, int>, PassPart> last;
            for (const Pass& pass : schedule(s, stage, m)) {
              const std::pair key{pass.chunk, pass.micro_batch};
              const bool first = !last.contains(key);
              REQUIRE(first == (pass.part == PassPart::forward));
              if (pass.part == PassPart::inputs ||
                  pass.part == PassPart::backward)
                REQUIRE(last[key] == PassPart::forward);
              if (pass.part == PassPart::weights)
                REQUIRE(last[key] == PassPart::inputs);
              last[key] = pass.part;
            }
            REQUIRE(last.size() == static_cast<std::size_t>(m * v));
            for (const auto& [key, part] : last)
              REQUIRE((part == PassPart::weights ||
                       (part == PassPart::backward &&
                        kind == Schedule::dualpipe_v)));
          }
        }
}

TEST_CASE("split backwards hold as many micro-batches as the paper says") {
  // arXiv 2401.10241, section 2: ZB-H1 no more than 1F1B's first stage, p;
  // ZB-H2 2p - 1.
  for (const int p : {2, 3, 4, 8})
    for (const int m : {1, p, 4 * p})
      for (int stage = 0; stage < p; ++stage) {
        CHECK(most_held(pipeline_of(p, 1, Schedule::zb_h1), stage, m,
                        PassPart::weights) == std::min(p, m));
        CHECK(most_held(pipeline_of(p, 1, Schedule::zb_h2), stage, m,
                        PassPart::weights) == std::min(2 * p - 1, m));
      }
}

TEST_CASE("a V holds what its papers say, on every stage alike") {
  // Chunks of half a stage: arXiv 2401.10241, section 6: ZB-V as 1F1B, 2p of
  // them; deepseek-ai/DualPipe, README: PP + 1 for PP = 2p chunks.
  for (const int p : {2, 3, 4, 8})
    for (const int m : {2 * p, 3 * p + 1, 6 * p})
      for (int stage = 0; stage < p; ++stage) {
        CHECK(most_held(pipeline_of(p, 2, Schedule::zb_v), stage, m,
                        PassPart::weights) == 2 * p);
        CHECK(most_held(pipeline_of(p, 2, Schedule::dualpipe_v), stage, m,
                        PassPart::weights) <= 2 * p + 1);
      }
}

TEST_CASE("a V runs its passes as its authors order them") {
  // torch, test/distributed/pipelining: ZBV of two ranks, four micro-batches.
  const Strategy v = pipeline_of(2, 2, Schedule::zb_v);
  CHECK(told(v, 0, 4) ==
        "F0.0 F1.0 F2.0 F0.1 B0.1 W0.1 F1.1 B1.1 W1.1 F3.0 B0.0 W0.0 F2.1 B2.1 "
        "W2.1 B1.0 W1.0 F3.1 B3.1 W3.1 B2.0 W2.0 B3.0 W3.0");
  // DualPipeV: the eight steps of dualpipev.py, by hand.
  const Strategy dual = pipeline_of(2, 2, Schedule::dualpipe_v);
  CHECK(told(dual, 0, 4) ==
        "F0.0 F1.0 F2.0 F0.1 B0.1 W0.1 F1.1 F3.0 BW1.1 F2.1 BW0.0 BW2.1 F3.1 "
        "BW1.0 BW3.1 B2.0 W2.0 B3.0 W3.0");
  CHECK(told(dual, 1, 4) ==
        "F0.0 F0.1 F1.0 F1.1 F2.0 BW0.1 F2.1 BW0.0 F3.0 BW1.1 F3.1 BW1.0 BW2.1 "
        "BW2.0 B3.1 B3.0 W3.1 W3.0");
}
