// What each stage of a step does: how long its compute lane is busy, and how
// long it waits.
#pragma once

#include <vector>

#include "step/step_graph.h"
#include "step/timeline.h"

namespace ztplan {

struct StageActivity {
  int stage = 0;
  std::int64_t tasks = 0;
  Seconds busy;         // tasks on its compute lane
  Seconds idle;         // the rest of the step
  Seconds first, last;  // when its first pass starts and its last task ends
};

/// By stage. Requires spans for all tasks.
std::vector<StageActivity> stage_activity(const StepGraph& graph,
                                          const Timeline& timeline);

}  // namespace ztplan
