#include "time/memory_curve.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "step/build_step.h"
#include "support/planning.h"
#include "time/simulate.h"

using namespace ztplan;

namespace {

/// What native may run, as FSDP holds it.
Question as_fsdp(Question question) {
  static const Engine fsdp = [] {
    Engine engine = find_engine("native");
    engine.name = "fsdp";
    return engine;
  }();
  question.engines = {&fsdp};
  return question;
}

Question by_fsdp(Question question) {
  question.engines = {&find_engine("fsdp")};
  return question;
}

}  // namespace

TEST_CASE("the simulated curve peaks at the ledger's bytes, on every stage") {
  const Question questions[] = {
      asked("gpt:layers=8,hidden=1024,heads=16,vocab=50304", "dgx-a100-80", 16,
            1024, 64),
      asked("mixtral-8x7b", "dgx-h100", 32, 4096, 64),
      as_fsdp(asked("gpt:layers=8,hidden=1024,heads=16,vocab=50304",
                    "dgx-a100-80", 16, 1024, 64)),
      scheduled(asked("gpt:layers=8,hidden=1024,heads=16,vocab=50304",
                      "dgx-a100-80", 16, 1024, 64),
                split_schedules()),
      scheduled(asked("llama3-8b", "dgx-h100", 16, 4096, 256),
                split_schedules()),
      scheduled(asked("mixtral-8x7b", "dgx-h100", 32, 4096, 64),
                split_schedules()),
      scheduled(by_fsdp(asked("llama3-8b", "dgx-h100", 16, 4096, 64)),
                split_schedules()),
  };
  unsigned seed = 40;
  for (const Question& q : questions) {
    const Setting setting = setting_of(q);
    for (const Legal& legal : legal_sample(q, 60, ++seed)) {
      CAPTURE(to_text(legal.strategy));
      const StepGraph graph =
          build_step(setting, *legal.engine, legal.strategy,
                     micro_batches(legal.strategy, q.workload));
      const Timeline timeline =
          simulate(graph, price_all(graph, {q.cluster, q.calibration}));
      const auto stages = stage_memory(setting, *legal.engine, legal.strategy);
      for (std::size_t i = 0; i < stages.size(); ++i) {
        const auto curve = memory_curve(setting, *legal.engine, legal.strategy,
                                        graph, timeline, static_cast<int>(i));
        Bytes peak;
        for (const CurvePoint& point : curve)
          peak = std::max(peak, point.bytes);
        CHECK(peak.value == stages[i].peak().value);
      }
    }
  }
}
