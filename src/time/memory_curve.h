// Device memory of one stage while a step runs: the ledger's holdings, acquired
// and released by the tasks of the graph.
#pragma once

#include <vector>

#include "step/step_graph.h"
#include "step/timeline.h"
#include "strategy/ledger.h"

namespace ztplan {

/// Device bytes from `time` until the next point.
struct CurvePoint {
  Seconds time;
  Phase phase;
  Bytes bytes;
};

/// The curve of `stage`, whose highest point is the peak of its ledger.
/// `graph` holds the whole step, and `timeline` its spans.
std::vector<CurvePoint> memory_curve(const Setting& setting,
                                     const Engine& engine,
                                     const Strategy& strategy,
                                     const StepGraph& graph,
                                     const Timeline& timeline, int stage);

}  // namespace ztplan
