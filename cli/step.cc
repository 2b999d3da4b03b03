#include "cli/step.h"

#include <fmt/format.h>

#include "base/error.h"
#include "report/number_text.h"
#include "step/build_step.h"
#include "time/step_time.h"

namespace ztplan {
namespace {

// A graph keeps a few hundred bytes a pass; more than this would not fit into
// the memory of a small machine, nor into a viewer.
constexpr std::int64_t kMostPasses = 4'000'000;

std::int64_t passes_of(const Question& question, const Strategy& strategy) {
  return std::int64_t{2} * micro_batches(strategy, question.workload) *
         strategy.pipeline * strategy.virtual_stages;
}

}  // namespace

bool is_walkable(const Question& question, const Plan& plan) {
  return passes_of(question, plan.strategy) <= kMostPasses;
}

Step simulate_step(const Question& question, const Plan& plan) {
  if (!is_walkable(question, plan)) {
    throw Error(
        fmt::format("the step has {} passes, {} can be shown one by one",
                    grouped(passes_of(question, plan.strategy)),
                    grouped(kMostPasses)),
        "leave out --trace or --over-time, or give a smaller --global-batch or "
        "a larger micro");
  }
  const Setting setting{question.model, question.cluster, question.workload};
  Step step{build_step(setting, *plan.engine, plan.strategy,
                       micro_batches(plan.strategy, question.workload)),
            {}};
  const Machine machine{question.cluster, question.calibration};
  step.timeline = run_tasks(step.graph, price_all(step.graph, machine),
                            *plan.engine, plan.strategy, machine);
  return step;
}

}  // namespace ztplan
