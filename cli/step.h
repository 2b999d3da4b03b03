// The whole step of one plan, task by task: for traces, curves and stages.
#pragma once

#include "search/question.h"
#include "step/step_graph.h"
#include "step/timeline.h"

namespace ztplan {

struct Step {
  StepGraph graph;
  Timeline timeline;
};

/// Whether the step has few enough passes to be walked one by one.
bool is_walkable(const Question& question, const Plan& plan);

/// Throws `Error` when it has not.
Step simulate_step(const Question& question, const Plan& plan);

}  // namespace ztplan
