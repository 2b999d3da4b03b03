// A trace is read back with another JSON library and compared with the graph.
#include <doctest/doctest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "report/stage_activity.h"
#include "report/trace.h"
#include "step/step_graph.h"

using namespace ztplan;
using nlohmann::json;

namespace {

constexpr double kMicro = 1e6;

/// Two stages: a forward of 2 s, its send of 1 s, a forward of 3 s.
struct TwoStages {
  StepGraph graph;
  Timeline timeline;

  TwoStages() {
    StepGraph::Builder builder;
    Recipe six_layers;
    six_layers.name = "forward of 6 layers";
    const int recipe = builder.add_recipe(six_layers);
    const TaskId first = builder.add(
        {.recipe = recipe, .stage = 0, .micro_batch = 0, .chunk = 0}, {});
    const TaskId sent = builder.add({.recipe = recipe,
                                     .stage = 0,
                                     .lane = Lane::pipeline,
                                     .kind = TaskKind::send,
                                     .micro_batch = 0},
                                    std::array{first});
    builder.add({.recipe = recipe, .stage = 1, .micro_batch = 0, .chunk = 0},
                std::array{sent});
    graph = std::move(builder).build();
    timeline.spans = {{Seconds{0}, Seconds{2}},
                      {Seconds{2}, Seconds{3}},
                      {Seconds{3}, Seconds{6}}};
  }
};

json trace_of(const TwoStages& step) {
  std::ostringstream out;
  write_trace(step.graph, step.timeline, out);
  return json::parse(out.str());
}

}  // namespace

TEST_CASE("a trace has a slice for every task, in microseconds") {
  const json trace = trace_of({});
  std::vector<json> slices;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") slices.push_back(event);
  }
  REQUIRE(slices.size() == 3);
  CHECK(slices[0].at("name") == "forward 0");
  CHECK(slices[0].at("ts") == 0 * kMicro);
  CHECK(slices[0].at("dur") == 2 * kMicro);
  CHECK(slices[1].at("cat") == "send");
  CHECK(slices[2].at("pid") == 1);
  CHECK(slices[2].at("ts") == 3 * kMicro);
  CHECK(slices[2].at("args").at("recipe") == "forward of 6 layers");
  CHECK(slices[2].at("args").at("micro_batch") == 0);
}

TEST_CASE("a trace has one named track per stage and lane") {
  const json trace = trace_of({});
  std::set<std::string> tracks;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "M") continue;
    tracks.insert(event.at("args").at("name").get<std::string>());
  }
  CHECK(tracks ==
        std::set<std::string>{"stage 0", "stage 1", "compute", "pipeline"});
}

TEST_CASE("a stage is idle while its compute lane is") {
  const TwoStages step;
  const auto stages = stage_activity(step.graph, step.timeline);
  REQUIRE(stages.size() == 2);
  CHECK(stages[0].busy.value == 2);
  CHECK(stages[0].idle.value == 4);
  CHECK(stages[0].last.value == 3);
  CHECK(stages[1].first.value == 3);
  CHECK(stages[1].busy.value + stages[1].idle.value == 6);
}
