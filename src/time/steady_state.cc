#include "time/steady_state.h"

#include <algorithm>
#include <cmath>

#include "strategy/schedule.h"
#include "strategy/stages.h"

namespace ztplan {
namespace {

// Periods are compared relative to their own length; spans carry rounding of
// about 1e-16 of the whole step.
constexpr double kSame = 1e-9;

/// First task of the forward of each micro-batch through each stage's first
/// chunk.
std::vector<std::vector<TaskId>> forward_starts(const StepGraph& graph) {
  std::vector<std::vector<TaskId>> starts(
      static_cast<std::size_t>(graph.stages()));
  const std::vector<Task>& tasks = graph.tasks();
  for (std::size_t id = 0; id < tasks.size(); ++id) {
    const Task& task = tasks[id];
    if (task.kind == TaskKind::forward && task.opens && task.chunk == 0)
      starts[static_cast<std::size_t>(task.stage)].push_back(
          static_cast<TaskId>(id));
  }
  return starts;
}

/// Task ids of the last two full periods of one stage's steady state. They end
/// a period before the last forward: what follows drains and reduces.
struct Window {
  TaskId earlier, later, end;
};

Window last_periods(const std::vector<TaskId>& starts, int period) {
  const auto before_last = [&](int periods) {
    return starts[starts.size() - static_cast<std::size_t>(periods * period)];
  };
  return {before_last(3), before_last(2), before_last(1)};
}

bool shifted(const Timeline& timeline, const Window& window, Seconds period) {
  const TaskId apart = window.later - window.earlier;
  if (window.end - window.later != apart) return false;
  for (TaskId id = window.later; id < window.end; ++id) {
    const Seconds shift =
        timeline.spans[static_cast<std::size_t>(id)].start -
        timeline.spans[static_cast<std::size_t>(id - apart)].start;
    if (std::abs((shift - period).value) > kSame * period.value) return false;
  }
  return true;
}

}  // namespace

int rhythm(const Strategy& strategy) {
  const bool rounds = strategy.virtual_stages > 1 && !folds(strategy);
  return rounds ? strategy.pipeline : 1;
}

int shortest_walk(const Strategy& strategy) {
  constexpr int kPeriods = 4;
  if (folds(strategy)) return 2 * strategy.pipeline + kPeriods;
  const int many = 4 * strategy.pipeline * strategy.virtual_stages;
  const int ahead = warm_up_passes(strategy, 0, many);
  const int period = rhythm(strategy);
  const int needed = static_cast<int>(divide_up(
      ahead + 3 * period * strategy.virtual_stages, strategy.virtual_stages));
  return static_cast<int>(round_up(needed + 1, period));
}

std::optional<Rhythm> find_rhythm(const StepGraph& graph,
                                  const PriceList& prices,
                                  const Timeline& timeline,
                                  const Strategy& strategy, int micro_batches,
                                  int stage) {
  if (strategy.schedule == Schedule::gpipe) return std::nullopt;
  if (micro_batches < shortest_walk(strategy)) return std::nullopt;
  const auto starts = forward_starts(graph);
  const auto window = [&](int of_stage) {
    return last_periods(starts[static_cast<std::size_t>(of_stage)],
                        rhythm(strategy));
  };
  const Window mine = window(stage);
  const Seconds period =
      timeline.spans[static_cast<std::size_t>(mine.later)].start -
      timeline.spans[static_cast<std::size_t>(mine.earlier)].start;
  for (int s = 0; s < graph.stages(); ++s)
    if (!shifted(timeline, window(s), period)) return std::nullopt;
  return Rhythm{period,
                charge(graph, prices, timeline, stage, mine.later, mine.end)};
}

}  // namespace ztplan
