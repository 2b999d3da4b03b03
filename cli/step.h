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

/// Throws `Error` when the step has more passes than a machine can hold.
Step simulate_step(const Question& question, const Plan& plan);

}  // namespace ztplan
