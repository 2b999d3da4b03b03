// Ranks as threads that share the cores of one machine: each runs its tasks one
// by one, in the order of the graph, and the more of them run the slower each.
#pragma once

#include "spec/measured.h"
#include "time/step_time.h"

namespace ztplan {

struct SharedCores {
  const MeasuredMachine& machine;
  int ranks_of_stage = 1;  // that run the same tasks
  int ranks = 1;           // of all stages
};

/// `prices` are those of a rank alone.
Timeline simulate_shared(const StepGraph& graph, const PriceList& prices,
                         const SharedCores& cores);

/// Every task of `stage` at the length it had; what it waited is `bubble`.
StepTime break_down_shared(const StepGraph& graph, const PriceList& prices,
                           const Timeline& timeline, int stage);

}  // namespace ztplan
