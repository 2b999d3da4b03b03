// A timeline as a Chrome trace, which ui.perfetto.dev opens: a process a
// stage, a thread a lane, a slice a task. Source of the format: "Trace Event
// Format", github.com/google/trace-viewer.
#pragma once

#include <iosfwd>

#include "step/step_graph.h"
#include "step/timeline.h"

namespace ztplan {

/// Writes task by task and keeps nothing: a graph of millions of tasks needs
/// no more memory than a small one. Requires spans for all tasks.
void write_trace(const StepGraph& graph, const Timeline& timeline,
                 std::ostream& out);

}  // namespace ztplan
