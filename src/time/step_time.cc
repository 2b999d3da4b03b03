#include "time/step_time.h"

#include <algorithm>

#include "step/build_step.h"
#include "time/breakdown.h"
#include "time/shared_cores.h"
#include "time/steady_state.h"

namespace ztplan {
namespace {

StepTime walk(const Setting& setting, const Engine& engine,
              const Strategy& strategy, const Machine& machine,
              int micro_batches) {
  const StepGraph graph = build_step(setting, engine, strategy, micro_batches);
  const PriceList prices = price_all(graph, machine);
  return break_down(graph, prices, simulate(graph, prices));
}

bool take_turns(const Engine& engine, const Machine& machine) {
  return engine.executed && shares_cores(machine.calibration);
}

void go_on(StepTime& time, const Rhythm& rhythm, double periods) {
  for (std::size_t i = 0; i < time.terms.size(); ++i)
    time.terms[i] += rhythm.terms[i] * periods;
}

}  // namespace

Seconds StepTime::total() const {
  Seconds sum;
  for (const Seconds& term : terms) sum += term;
  return sum;
}

StepTime break_down(const StepGraph& graph, const PriceList& prices,
                    const Timeline& timeline) {
  const int stage = busiest_stage(graph, prices);
  return {charge_step(graph, prices, timeline, stage), stage};
}

Timeline run_tasks(const StepGraph& graph, const PriceList& prices,
                   const Engine& engine, const Strategy& strategy,
                   const Machine& machine) {
  if (!take_turns(engine, machine)) return simulate(graph, prices);
  return simulate_shared(
      graph, prices,
      {*machine.calibration.measured, devices(strategy) / strategy.pipeline,
       devices(strategy)});
}

StepTime estimate_step(const Setting& setting, const Engine& engine,
                       const Strategy& strategy, const Machine& machine) {
  const int all = micro_batches(strategy, setting.workload);
  if (take_turns(engine, machine)) {
    const StepGraph graph = build_step(setting, engine, strategy, all);
    const PriceList prices = price_all(graph, machine);
    const Timeline timeline =
        run_tasks(graph, prices, engine, strategy, machine);
    return break_down_shared(graph, prices, timeline, 0);
  }
  const int period = rhythm(strategy);
  for (int some = shortest_walk(strategy); some + period < all; some *= 2) {
    const StepGraph graph = build_step(setting, engine, strategy, some);
    const PriceList prices = price_all(graph, machine);
    const Timeline timeline = simulate(graph, prices);
    StepTime time = break_down(graph, prices, timeline);
    const auto found =
        find_rhythm(graph, prices, timeline, strategy, some, time.stage);
    if (!found) continue;
    const int periods = (all - some) / period;
    go_on(time, *found, periods);
    return time;
  }
  return walk(setting, engine, strategy, machine, all);
}

}  // namespace ztplan
