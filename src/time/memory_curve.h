// Device memory of one stage while a step runs: the ledger's holdings, acquired
// and released by the tasks of the graph.
#pragma once

#include <vector>

#include "step/step_graph.h"
#include "step/timeline.h"
#include "strategy/ledger.h"

namespace ztplan {

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
