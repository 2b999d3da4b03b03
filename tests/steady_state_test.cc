#include "time/steady_state.h"

#include <doctest/doctest.h>

#include "step/build_step.h"
#include "support/planning.h"
#include "time/step_time.h"

using namespace ztplan;

namespace {

/// The whole step walked, without continuing anything.
StepTime walked(const Question& q, const Legal& legal) {
  const Machine machine{q.cluster, q.calibration};
  const StepGraph graph =
      build_step(setting_of(q), *legal.engine, legal.strategy,
                 micro_batches(legal.strategy, q.workload));
  const PriceList prices = price_all(graph, machine);
  return break_down(graph, prices, simulate(graph, prices));
}

void compare(const Question& q, std::size_t count, unsigned seed) {
  const Machine machine{q.cluster, q.calibration};
  int continued = 0;
  for (const Legal& legal : legal_sample(q, count, seed)) {
    CAPTURE(to_text(legal.strategy));
    const StepTime fast =
        estimate_step(setting_of(q), *legal.engine, legal.strategy, machine);
    const StepTime slow = walked(q, legal);
    CHECK(fast.total().value ==
          doctest::Approx(slow.total().value).epsilon(1e-9));
    continued += micro_batches(legal.strategy, q.workload) >
                 shortest_walk(legal.strategy) + rhythm(legal.strategy);
  }
  CHECK(continued > 10);
}

}  // namespace

TEST_CASE("a continued step takes as long as one that is walked whole") {
  compare(asked("gpt:layers=8,hidden=1024,heads=16,vocab=50304", "dgx-a100-80",
                16, 1024, 512),
          150, 1);
  // A head worth several layers: the last stage is the slow one.
  compare(asked("llama:layers=16,hidden=2048,heads=16,vocab=256000,ffn=5632",
                "dgx-h100", 32, 2048, 768),
          100, 2);
  compare(scheduled(asked("gpt:layers=8,hidden=1024,heads=16,vocab=50304",
                          "dgx-a100-80", 16, 1024, 512),
                    split_schedules()),
          150, 3);
}

TEST_CASE("a rhythm divides its period over the terms of any stage") {
  const Question q = asked("gpt:layers=8,hidden=2048,heads=16,vocab=50304",
                           "dgx-a100-80", 16, 1024, 64);
  const Strategy s = parse_strategy("tp=2,pp=4,sp=1,zero=1", 16);
  const Engine& engine = *engine_for(q, s);
  const StepGraph graph = build_step(setting_of(q), engine, s, 32);
  const PriceList prices = price_all(graph, {q.cluster, q.calibration});
  const Timeline timeline = simulate(graph, prices);
  for (int stage = 0; stage < 4; ++stage) {
    const auto found = find_rhythm(graph, prices, timeline, s, 32, stage);
    REQUIRE(found.has_value());
    Seconds sum;
    for (const Seconds& term : found->terms) sum += term;
    CHECK(sum.value == doctest::Approx(found->period.value).epsilon(1e-9));
  }
}
