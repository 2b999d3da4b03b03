// A lower bound of a step, read from the same price list as its simulation.
#pragma once

#include "search/frame.h"

namespace ztplan {

/// At most `estimate_step(...).total()`: the passes of the longest path or the
/// busiest other lane, then gradient norm, optimizer and parameter gather.
Seconds least_step(FrameCache& cache, const Engine& engine,
                   const Strategy& strategy);

}  // namespace ztplan
