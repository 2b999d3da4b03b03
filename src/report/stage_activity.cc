#include "report/stage_activity.h"

#include <algorithm>

#include "base/error.h"

namespace ztplan {
namespace {

void add_task(StageActivity& stage, const Task& task, const Span& span) {
  if (stage.tasks == 0) stage.first = span.start;
  ++stage.tasks;
  if (task.lane == Lane::compute) stage.busy += span.end - span.start;
  stage.first = std::min(stage.first, span.start);
  stage.last = std::max(stage.last, span.end);
}

}  // namespace

std::vector<StageActivity> stage_activity(const StepGraph& graph,
                                          const Timeline& timeline) {
  require(timeline.spans.size() == graph.tasks().size(),
          "a timeline has a span for every task");
  std::vector<StageActivity> stages(static_cast<std::size_t>(graph.stages()));
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const Task& task = graph.tasks()[i];
    add_task(stages[static_cast<std::size_t>(task.stage)], task,
             timeline.spans[i]);
  }
  const Seconds end = timeline.end();
  for (std::size_t i = 0; i < stages.size(); ++i) {
    stages[i].stage = static_cast<int>(i);
    stages[i].idle = end - stages[i].busy;
  }
  return stages;
}

}  // namespace ztplan
