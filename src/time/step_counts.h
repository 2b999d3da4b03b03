// What a step does and what that makes per second: traffic, recomputation,
// tokens and flops. Counted from the graph, not priced.
#pragma once

#include "strategy/engine.h"
#include "strategy/strategy.h"

namespace ztplan {

/// Bytes one GPU of the stage that sends most sends in a step, by what for;
/// `offload` is what it copies between tiers.
struct Traffic {
  Bytes tensor, data, pipeline, context, expert, offload;
  Bytes gradients;  // of `data`, what reduces gradients
  Bytes total() const;
};

/// What one step does, counted from its graph.
struct StepCounts {
  Traffic traffic;
  Flops recomputed;  // mean over devices, attention counted in full
};
StepCounts count_step(const Setting& setting, const Engine& engine,
                      const Strategy& strategy);

struct Throughput {
  double tokens_per_second = 0;
  double tokens_per_second_per_gpu = 0;
  FlopsPerSecond model_per_gpu;     // recomputation not counted
  FlopsPerSecond hardware_per_gpu;  // recomputation counted
  double mfu = 0, hfu = 0;          // of the device's dense peak
};
/// Model flops count attention in full, as in PaLM, arXiv 2204.02311, app. B.
Throughput throughput(const Setting& setting, const Strategy& strategy,
                      Flops recomputed, Seconds step);

}  // namespace ztplan
