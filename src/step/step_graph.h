// A training step as a graph: tasks on lanes, and what waits for what. One
// representative rank a stage; its tensor- and data-parallel peers are equal.
// Boost.Graph lives behind this header only.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "step/recipe.h"

namespace ztplan {

/// In-order queues of one stage, as CUDA streams are.
enum class Lane {
  compute,   // also every collective that compute waits for
  data,      // gradient and parameter collectives
  pipeline,  // sends to neighbouring stages
  to_host,
  to_device,
  nvme,
  host  // processor work: Adam
};
constexpr int kLanes = 7;
std::string_view to_text(Lane lane);

/// Passes first. A backward is one task, or two with the same micro-batch and
/// chunk: the gradients of inputs, after which the stage before may go on, and
/// on the same lane, some tasks later, those of weights, from what the former
/// kept. Gradients are reduced after `backward` or `weight_gradients`.
enum class TaskKind {
  forward,
  backward,
  input_gradients,
  weight_gradients,
  send,
  gather,
  reduce,
  norm,
  optimizer,
  transfer
};
std::string_view to_text(TaskKind kind);

struct Task {
  int recipe = 0;  // index into StepGraph::recipes
  int stage = 0;
  Lane lane = Lane::compute;
  TaskKind kind = TaskKind::forward;
  Direction direction = Direction::forward;  // of its pass
  int micro_batch = -1;                      // -1: none
  int chunk = -1;
  /// Of a pass: which of the pieces its chunk is cut into.
  int segment = 0, segments = 1;
  bool opens = true;   // first task of its pass: activations are acquired
  bool closes = true;  // last task of its pass: they are released
};

using TaskId = int;

class StepGraph {
 public:
  /// Collects tasks; a task follows all that came before it on its lane.
  class Builder {
   public:
    int add_recipe(Recipe recipe);
    TaskId add(const Task& task, std::span<const TaskId> after);
    /// `task` waits for `after` too; either may have been added first.
    void wait(TaskId task, TaskId after);
    /// Whether `task` is the first and the last of its pass.
    void mark(TaskId task, bool opens, bool closes);
    /// Throws `Bug` when tasks wait for one another: a schedule that cannot
    /// run.
    StepGraph build() &&;

   private:
    friend class StepGraph;
    std::vector<Task> tasks_;
    std::vector<Recipe> recipes_;
    std::vector<std::pair<TaskId, TaskId>> edges_;  // (task, predecessor)
    std::vector<TaskId> last_on_lane_;
  };

  const std::vector<Task>& tasks() const { return tasks_; }
  const std::vector<Recipe>& recipes() const { return recipes_; }
  int stages() const { return stages_; }
  /// All tasks, each after all it waits for.
  std::span<const TaskId> order() const { return order_; }
  std::span<const TaskId> predecessors(TaskId task) const;

 private:
  std::vector<Task> tasks_;
  std::vector<Recipe> recipes_;
  std::vector<TaskId> order_;
  std::vector<int> first_predecessor_;  // [tasks + 1]
  std::vector<TaskId> predecessors_;
  int stages_ = 0;
};

}  // namespace ztplan
