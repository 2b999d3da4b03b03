#include "time/shared_cores.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace ztplan {
namespace {

/// One stage: its tasks in order, the one at hand, and what is left of it.
struct Program {
  std::vector<TaskId> tasks;
  std::size_t next = 0;
  bool running = false;
  double left = 0;  // seconds, were it alone
};

class Walk {
 public:
  Walk(const StepGraph& graph, const PriceList& prices,
       const SharedCores& cores)
      : graph_(graph),
        prices_(prices),
        cores_(cores),
        factor_(step_factor(cores.machine, cores.ranks)),
        programs_(static_cast<std::size_t>(graph.stages())),
        done_(graph.tasks().size(), false) {
    timeline_.spans.resize(graph.tasks().size());
    for (const TaskId id : graph.order())
      programs_[static_cast<std::size_t>(task(id).stage)].tasks.push_back(id);
  }

  Timeline run() && {
    while (start_ready()) advance();
    for (const Program& program : programs_)
      require(program.next == program.tasks.size(), "every task is reached");
    return std::move(timeline_);
  }

 private:
  const Task& task(TaskId id) const {
    return graph_.tasks()[static_cast<std::size_t>(id)];
  }
  Span& span(TaskId id) {
    return timeline_.spans[static_cast<std::size_t>(id)];
  }

  bool is_ready(TaskId id) const {
    return std::ranges::all_of(graph_.predecessors(id), [&](TaskId before) {
      return bool{done_[static_cast<std::size_t>(before)]};
    });
  }

  /// Whether any stage runs then.
  bool start_ready() {
    bool any = false;
    for (Program& program : programs_) {
      if (!program.running && program.next < program.tasks.size() &&
          is_ready(program.tasks[program.next]))
        begin(program);
      any = any || program.running;
    }
    return any;
  }

  void begin(Program& program) {
    const TaskId id = program.tasks[program.next];
    span(id).start = {now_};
    program.running = true;
    program.left =
        prices_[static_cast<std::size_t>(task(id).recipe)].total.value;
  }

  /// To the end of the task that ends first.
  void advance() {
    int active = 0;
    double least = std::numeric_limits<double>::infinity();
    for (const Program& program : programs_) {
      if (!program.running) continue;
      active += cores_.ranks_of_stage;
      least = std::min(least, program.left);
    }
    now_ += least * factor_ * std::max(1.0, sharing(cores_.machine, active));
    for (Program& program : programs_) {
      if (!program.running) continue;
      program.left -= least;
      if (program.left <= 0) finish(program);
    }
  }

  void finish(Program& program) {
    const TaskId id = program.tasks[program.next++];
    span(id).end = {now_};
    done_[static_cast<std::size_t>(id)] = true;
    program.running = false;
  }

  const StepGraph& graph_;
  const PriceList& prices_;
  const SharedCores& cores_;
  double factor_;
  std::vector<Program> programs_;
  std::vector<bool> done_;
  Timeline timeline_;
  double now_ = 0;
};

}  // namespace

Timeline simulate_shared(const StepGraph& graph, const PriceList& prices,
                         const SharedCores& cores) {
  return Walk(graph, prices, cores).run();
}

StepTime break_down_shared(const StepGraph& graph, const PriceList& prices,
                           const Timeline& timeline, int stage) {
  StepTime time;
  time.stage = stage;
  Seconds worked;
  for (std::size_t id = 0; id < graph.tasks().size(); ++id) {
    const Task& task = graph.tasks()[id];
    const RecipePrice& price = prices[static_cast<std::size_t>(task.recipe)];
    if (task.stage != stage || price.total.value <= 0) continue;
    const Span& span = timeline.spans[id];
    const double longer = (span.end - span.start) / price.total;
    for (std::size_t i = 0; i < time.terms.size(); ++i)
      time.terms[i] += price.terms[i] * longer;
    worked += span.end - span.start;
  }
  time.terms[static_cast<std::size_t>(TimeTerm::bubble)] +=
      timeline.end() - worked;
  return time;
}

}  // namespace ztplan
