#include "time/breakdown.h"

#include <algorithm>

namespace ztplan {
namespace {

const Task& task_of(const StepGraph& graph, TaskId id) {
  return graph.tasks()[static_cast<std::size_t>(id)];
}

const Span& span_of(const Timeline& timeline, TaskId id) {
  return timeline.spans[static_cast<std::size_t>(id)];
}

Seconds& of(TermSeconds& terms, TimeTerm term) {
  return terms[static_cast<std::size_t>(term)];
}

/// The task whose end let `id` start; -1 when nothing did.
TaskId awaited(const StepGraph& graph, const Timeline& timeline, TaskId id) {
  TaskId latest = -1;
  for (const TaskId before : graph.predecessors(id))
    if (latest < 0 ||
        span_of(timeline, latest).end < span_of(timeline, before).end)
      latest = before;
  return latest;
}

/// Seconds that `stage` spent waiting while `id` ran.
void charge_wait(const StepGraph& graph, const PriceList& prices, int stage,
                 TaskId id, Seconds waited, TermSeconds& terms) {
  const Task& task = task_of(graph, id);
  const RecipePrice& price = prices[static_cast<std::size_t>(task.recipe)];
  if (task.stage != stage && task.kind != TaskKind::send) {
    of(terms, TimeTerm::bubble) += waited;
    return;
  }
  if (price.total.value <= 0) return;
  const double share = waited / price.total;
  for (std::size_t i = 0; i < terms.size(); ++i)
    terms[i] += price.terms[i] * share;
}

/// Divides the idle time [from, to) over the chain of tasks that `id`, which
/// ends it, was waiting for.
void charge_gap(const StepGraph& graph, const PriceList& prices,
                const Timeline& timeline, int stage, TaskId id, Seconds from,
                Seconds to, TermSeconds& terms) {
  while (from < to && id >= 0) {
    const Seconds begun = std::max(from, span_of(timeline, id).start);
    charge_wait(graph, prices, stage, id, to - begun, terms);
    to = begun;
    id = awaited(graph, timeline, id);
  }
  of(terms, TimeTerm::bubble) += std::max(Seconds{}, to - from);
}

bool on_compute_lane(const Task& task, int stage) {
  return task.stage == stage && task.lane == Lane::compute;
}

}  // namespace

int busiest_stage(const StepGraph& graph, const PriceList& prices) {
  std::vector<Seconds> busy(static_cast<std::size_t>(graph.stages()));
  for (const Task& task : graph.tasks())
    if (task.lane == Lane::compute)
      busy[static_cast<std::size_t>(task.stage)] +=
          prices[static_cast<std::size_t>(task.recipe)].total;
  return static_cast<int>(std::max_element(busy.begin(), busy.end()) -
                          busy.begin());
}

TermSeconds charge(const StepGraph& graph, const PriceList& prices,
                   const Timeline& timeline, int stage, TaskId first,
                   TaskId last) {
  TermSeconds terms{};
  Seconds idle_since;
  for (TaskId id = first - 1; id >= 0; --id)
    if (on_compute_lane(task_of(graph, id), stage)) {
      idle_since = span_of(timeline, id).end;
      break;
    }
  for (TaskId id = first; id < last; ++id) {
    if (!on_compute_lane(task_of(graph, id), stage)) continue;
    const Span& span = span_of(timeline, id);
    charge_gap(graph, prices, timeline, stage, awaited(graph, timeline, id),
               idle_since, span.start, terms);
    const auto recipe = static_cast<std::size_t>(task_of(graph, id).recipe);
    for (std::size_t i = 0; i < terms.size(); ++i)
      terms[i] += prices[recipe].terms[i];
    idle_since = span.end;
  }
  return terms;
}

TermSeconds charge_step(const StepGraph& graph, const PriceList& prices,
                        const Timeline& timeline, int stage) {
  const TaskId count = static_cast<TaskId>(graph.tasks().size());
  TermSeconds terms = charge(graph, prices, timeline, stage, 0, count);
  Seconds worked;
  TaskId last = -1;
  for (TaskId id = 0; id < count; ++id) {
    const Span& span = span_of(timeline, id);
    if (on_compute_lane(task_of(graph, id), stage))
      worked = std::max(worked, span.end);
    if (last < 0 || span_of(timeline, last).end < span.end) last = id;
  }
  charge_gap(graph, prices, timeline, stage, last, worked, timeline.end(),
             terms);
  return terms;
}

}  // namespace ztplan
