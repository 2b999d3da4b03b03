#include "cli/step.h"

#include <fmt/format.h>

#include "base/error.h"
#include "report/number_text.h"
#include "step/build_step.h"
#include "time/simulate.h"

namespace ztplan {
namespace {

// A graph keeps a few hundred bytes a pass; more than this would not fit into
// the memory of a small machine, nor into a viewer.
constexpr std::int64_t kMostPasses = 4'000'000;

void check_size(const Question& question, const Strategy& strategy) {
  const std::int64_t passes = std::int64_t{2} *
                              micro_batches(strategy, question.workload) *
                              strategy.pipeline * strategy.virtual_stages;
  if (passes <= kMostPasses) return;
  throw Error(fmt::format("the step has {} passes, {} can be shown one by one",
                          grouped(passes), grouped(kMostPasses)),
              "give a smaller --global-batch or a larger micro");
}

}  // namespace

Step simulate_step(const Question& question, const Plan& plan) {
  check_size(question, plan.strategy);
  const Setting setting{question.model, question.cluster, question.workload};
  Step step{build_step(setting, *plan.engine, plan.strategy,
                       micro_batches(plan.strategy, question.workload)),
            {}};
  const PriceList prices =
      price_all(step.graph, {question.cluster, question.calibration});
  step.timeline = simulate(step.graph, prices);
  return step;
}

}  // namespace ztplan
