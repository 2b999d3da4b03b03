// The executor has room for the weights, and for the whole gradients, of two
// units: what the graph must wait for before a third takes their place.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <tuple>

#include "step/build_step.h"
#include "support/planning.h"

using namespace ztplan;

namespace {

using UnitPass = std::tuple<int, int, int, Direction>;

UnitPass pass_of(const Task& task) {
  return {task.chunk, task.micro_batch, task.segment, task.direction};
}

bool computes(const Task& task) {
  return task.kind == TaskKind::forward || task.kind == TaskKind::backward;
}

/// Whether `late` waits for `early`, through whatever it waits for.
bool waits_for(const StepGraph& graph, TaskId late, TaskId early) {
  std::vector<bool> seen(graph.tasks().size());
  std::vector<TaskId> open{late};
  while (!open.empty()) {
    const TaskId task = open.back();
    open.pop_back();
    if (task == early) return true;
    for (const TaskId before : graph.predecessors(task)) {
      if (seen[static_cast<std::size_t>(before)]) continue;
      seen[static_cast<std::size_t>(before)] = true;
      open.push_back(before);
    }
  }
  return false;
}

StepGraph executed(const std::string& strategy) {
  Question q = asked(
      "llama:layers=4,hidden=16,heads=8,kv_heads=4,ffn=16,experts=4,top_k=2,"
      "vocab=40",
      "dgx-h100", 8, 16, 8);
  q.workload.engine = "native";
  const Strategy s = parse_strategy(strategy, 0);
  return build_step(setting_of(q), find_engine("native"), s,
                    micro_batches(s, q.workload));
}

/// Computing tasks of a stage in their order, all or those that go back.
std::vector<TaskId> passes(const StepGraph& graph, int stage, bool back) {
  std::vector<TaskId> all;
  for (const TaskId id : graph.order()) {
    const Task& task = graph.tasks()[static_cast<std::size_t>(id)];
    if (task.stage == stage && computes(task) &&
        (!back || task.kind == TaskKind::backward))
      all.push_back(id);
  }
  return all;
}

void check_room(const StepGraph& graph, int stage) {
  std::map<UnitPass, TaskId> reduced;
  std::map<UnitPass, std::vector<TaskId>> brought;
  for (const TaskId id : graph.order()) {
    const Task& task = graph.tasks()[static_cast<std::size_t>(id)];
    if (task.stage != stage || task.micro_batch < 0) continue;
    if (task.kind == TaskKind::reduce) reduced[pass_of(task)] = id;
    if (task.kind == TaskKind::gather || task.kind == TaskKind::transfer)
      brought[pass_of(task)].push_back(id);
  }
  const auto pass = [&](TaskId id) {
    return pass_of(graph.tasks()[static_cast<std::size_t>(id)]);
  };
  const std::vector<TaskId> all = passes(graph, stage, false);
  for (std::size_t i = 2; i < all.size(); ++i)
    for (const TaskId id : brought[pass(all[i])])
      CHECK(waits_for(graph, id, all[i - 2]));
  const std::vector<TaskId> back = passes(graph, stage, true);
  for (std::size_t i = 2; i < back.size(); ++i) {
    const auto before = reduced.find(pass(back[i - 2]));
    if (before != reduced.end())
      CHECK(waits_for(graph, back[i], before->second));
  }
}

}  // namespace

TEST_CASE("executor: a third unit waits for the place of the first") {
  // Under tensor parallelism alone, experts have what to gather and reduce, and
  // some of the other units have not.
  for (const char* strategy :
       {"dp=4,zero=3", "dp=2,pp=2,zero=3,offload=nvme+parameters",
        "dp=2,pp=2,vpp=2,zero=2", "tp=2,sp=1,dp=1,zero=2",
        "tp=2,sp=1,dp=1,zero=3", "tp=2,sp=1,dp=1,pp=2,zero=3",
        "tp=2,sp=1,dp=1,pp=2,zero=3,offload=nvme+parameters"}) {
    CAPTURE(std::string(strategy));
    const StepGraph graph = executed(strategy);
    for (int stage = 0; stage < graph.stages(); ++stage)
      check_room(graph, stage);
  }
}
