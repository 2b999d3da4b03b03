#include "step/step_graph.h"

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/topological_sort.hpp>
#include <boost/range/iterator_range.hpp>

#include "base/error.h"

namespace ztplan {
namespace {

/// Edges run from a task to what it waits for, so that a topological sort
/// yields tasks in an order in which they can run.
using WaitGraph =
    boost::compressed_sparse_row_graph<boost::directedS, boost::no_property,
                                       boost::no_property, boost::no_property,
                                       std::uint32_t, std::uint32_t>;

WaitGraph wait_graph(const std::vector<std::pair<TaskId, TaskId>>& edges,
                     std::size_t tasks) {
  return {boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(),
          static_cast<std::uint32_t>(tasks)};
}

std::vector<TaskId> running_order(const WaitGraph& graph) {
  std::vector<TaskId> order;
  order.reserve(boost::num_vertices(graph));
  try {
    boost::topological_sort(graph, std::back_inserter(order));
  } catch (const boost::not_a_dag&) {
    throw Bug("tasks wait for one another: this schedule cannot run");
  }
  return order;
}

}  // namespace

std::string_view to_text(Lane lane) {
  switch (lane) {
    case Lane::compute:
      return "compute";
    case Lane::data:
      return "data";
    case Lane::pipeline:
      return "pipeline";
    case Lane::to_host:
      return "to_host";
    case Lane::to_device:
      return "to_device";
    case Lane::nvme:
      return "nvme";
    case Lane::host:
      return "host";
  }
  return "";
}

std::string_view to_text(TaskKind kind) {
  switch (kind) {
    case TaskKind::forward:
      return "forward";
    case TaskKind::backward:
      return "backward";
    case TaskKind::input_gradients:
      return "input gradients";
    case TaskKind::weight_gradients:
      return "weight gradients";
    case TaskKind::send:
      return "send";
    case TaskKind::gather:
      return "gather";
    case TaskKind::reduce:
      return "reduce";
    case TaskKind::norm:
      return "norm";
    case TaskKind::optimizer:
      return "optimizer";
    case TaskKind::transfer:
      return "transfer";
  }
  return "";
}

int StepGraph::Builder::add_recipe(Recipe recipe) {
  recipes_.push_back(std::move(recipe));
  return static_cast<int>(recipes_.size()) - 1;
}

TaskId StepGraph::Builder::add(const Task& task,
                               std::span<const TaskId> after) {
  const TaskId id = static_cast<TaskId>(tasks_.size());
  tasks_.push_back(task);
  const std::size_t lane = static_cast<std::size_t>(task.stage) * kLanes +
                           static_cast<std::size_t>(task.lane);
  if (lane >= last_on_lane_.size()) last_on_lane_.resize(lane + 1, -1);
  if (last_on_lane_[lane] >= 0) wait(id, last_on_lane_[lane]);
  last_on_lane_[lane] = id;
  for (const TaskId other : after)
    if (other >= 0) wait(id, other);
  return id;
}

void StepGraph::Builder::wait(TaskId task, TaskId after) {
  edges_.emplace_back(task, after);
}

void StepGraph::Builder::mark(TaskId task, bool opens, bool closes) {
  Task& marked = tasks_[static_cast<std::size_t>(task)];
  marked.opens = opens;
  marked.closes = closes;
}

StepGraph StepGraph::Builder::build() && {
  const WaitGraph waits = wait_graph(edges_, tasks_.size());
  StepGraph graph;
  graph.order_ = running_order(waits);
  graph.first_predecessor_.reserve(tasks_.size() + 1);
  graph.first_predecessor_.push_back(0);
  graph.predecessors_.reserve(edges_.size());
  for (const auto task : boost::make_iterator_range(boost::vertices(waits))) {
    for (const auto edge :
         boost::make_iterator_range(boost::out_edges(task, waits)))
      graph.predecessors_.push_back(
          static_cast<TaskId>(boost::target(edge, waits)));
    graph.first_predecessor_.push_back(
        static_cast<int>(graph.predecessors_.size()));
  }
  for (const Task& task : tasks_)
    graph.stages_ = std::max(graph.stages_, task.stage + 1);
  graph.tasks_ = std::move(tasks_);
  graph.recipes_ = std::move(recipes_);
  return graph;
}

std::span<const TaskId> StepGraph::predecessors(TaskId task) const {
  const auto index = static_cast<std::size_t>(task);
  const auto first = static_cast<std::size_t>(first_predecessor_[index]);
  const auto last = static_cast<std::size_t>(first_predecessor_[index + 1]);
  return {predecessors_.data() + first, last - first};
}

}  // namespace ztplan
