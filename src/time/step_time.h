// Where a step's time goes: terms that add up, of the stage that works longest.
#pragma once

#include <array>
#include <vector>

#include "strategy/ledger.h"
#include "time/simulate.h"

namespace ztplan {

/// Exposed seconds by term; they add up to the step.
struct StepTime {
  std::array<Seconds, kTimeTerms> terms{};
  int stage = 0;  // the busiest, whose terms these are
  Seconds total() const;
  Seconds operator[](TimeTerm term) const {
    return terms[static_cast<int>(term)];
  }
};

/// Of a simulated or measured timeline. What a stage waits for is charged to
/// the term of the task it waits for, and to `bubble` when that is another
/// stage's compute.
StepTime break_down(const StepGraph& graph, const PriceList& prices,
                    const Timeline& timeline);

/// The whole step: build, price, simulate, break down. A steady state of equal
/// micro-batches is walked until it repeats and then continued, exactly.
StepTime estimate_step(const Setting& setting, const Engine& engine,
                       const Strategy& strategy, const Machine& machine);

/// Bytes one GPU sends in a step, by what for.
struct Traffic {
  Bytes tensor, data, pipeline, context, expert, offload;
};
Traffic step_traffic(const Setting& setting, const Engine& engine,
                     const Strategy& strategy);

/// Operations of the busiest stage's device in a step, recomputation included.
Flops hardware_flops(const Setting& setting, const Engine& engine,
                     const Strategy& strategy);

struct Throughput {
  double tokens_per_second = 0;
  double tokens_per_second_per_gpu = 0;
  FlopsPerSecond model_per_gpu;     // recomputation not counted
  FlopsPerSecond hardware_per_gpu;  // recomputation counted
  double mfu = 0, hfu = 0;          // of the device's dense peak
};
Throughput throughput(const Setting& setting, const Engine& engine,
                      const Strategy& strategy, Seconds step);

/// Device bytes of one stage over a step, at each change.
struct CurvePoint {
  Seconds time;
  Bytes bytes;
};
std::vector<CurvePoint> memory_curve(const Setting& setting,
                                     const Engine& engine,
                                     const Strategy& strategy,
                                     const StepGraph& graph,
                                     const Timeline& timeline, int stage);

}  // namespace ztplan
