#include "step/step_graph.h"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <sstream>
#include <string>

#include "base/error.h"
#include "time/breakdown.h"
#include "time/simulate.h"

using namespace ztplan;

namespace {

/// A graph in words: "name lane seconds after a,b" a line; lanes are
/// "0.compute", "1.data", ...
class Sketch {
 public:
  explicit Sketch(const std::string& text) {
    std::istringstream lines(text);
    std::string name, lane, seconds, after;
    while (lines >> name >> lane >> seconds >> after)
      add(name, lane, std::stod(seconds), after);
    graph = std::move(builder_).build();
    timeline = simulate(graph, prices);
  }

  double start(const std::string& name) const { return span(name).start.value; }
  double end(const std::string& name) const { return span(name).end.value; }

  StepGraph graph;
  PriceList prices;
  Timeline timeline;

 private:
  const Span& span(const std::string& name) const {
    return timeline.spans[static_cast<std::size_t>(ids_.at(name))];
  }

  void add(const std::string& name, const std::string& lane, double seconds,
           const std::string& after) {
    RecipePrice price;
    const bool data = lane.ends_with("data");
    const TimeTerm term = data ? TimeTerm::data_comm : TimeTerm::compute;
    price.total = price.terms[static_cast<std::size_t>(term)] =
        Seconds{seconds};
    prices.push_back(price);
    Task task;
    task.recipe = builder_.add_recipe({});
    task.stage = lane[0] - '0';
    task.lane = data ? Lane::data : Lane::compute;
    std::vector<TaskId> before;
    std::istringstream names(after);
    for (std::string other; std::getline(names, other, ',');)
      if (other != "-") before.push_back(ids_.at(other));
    ids_[name] = builder_.add(task, before);
  }

  StepGraph::Builder builder_;
  std::map<std::string, TaskId> ids_;
};

double of(const TermSeconds& terms, TimeTerm term) {
  return terms[static_cast<std::size_t>(term)].value;
}

}  // namespace

TEST_CASE("a task starts when its lane is free and what it awaits is done") {
  const Sketch sketch(
      "a 0.compute 2 -\n"
      "b 0.compute 3 -\n"
      "c 1.compute 1 a\n"
      "d 1.compute 1 b,c\n");
  CHECK(sketch.start("b") == 2);
  CHECK(sketch.start("c") == 2);
  CHECK(sketch.start("d") == 5);
  CHECK(sketch.timeline.end().value == 6);
}

TEST_CASE("work on its own lane is hidden until compute waits for it") {
  const Sketch sketch(
      "gather 0.data 1 -\n"
      "layer 0.compute 4 gather\n"
      "reduce 0.data 3 layer\n"
      "other 0.compute 2 -\n"
      "step 0.compute 1 reduce\n");
  CHECK(sketch.end("other") == 7);
  CHECK(sketch.end("reduce") == 8);
  const TermSeconds terms =
      charge_step(sketch.graph, sketch.prices, sketch.timeline, 0);
  CHECK(of(terms, TimeTerm::compute) == 7);
  CHECK(of(terms, TimeTerm::data_comm) == 2);  // 1 before, 1 after
  CHECK(of(terms, TimeTerm::bubble) == 0);
}

TEST_CASE("waiting for another stage's compute is a bubble") {
  const Sketch sketch(
      "a 0.compute 3 -\n"
      "b 1.compute 5 a\n"
      "c 0.compute 1 b\n");
  const TermSeconds terms =
      charge_step(sketch.graph, sketch.prices, sketch.timeline, 0);
  CHECK(of(terms, TimeTerm::compute) == 4);
  CHECK(of(terms, TimeTerm::bubble) == 5);
  CHECK(busiest_stage(sketch.graph, sketch.prices) == 1);
  const TermSeconds others =
      charge_step(sketch.graph, sketch.prices, sketch.timeline, 1);
  CHECK(of(others, TimeTerm::compute) == 5);
  CHECK(of(others, TimeTerm::bubble) == 4);
}

TEST_CASE("tasks that wait for one another are refused when built") {
  StepGraph::Builder builder;
  Task task;
  task.recipe = builder.add_recipe({});
  const TaskId a = builder.add(task, {});
  task.stage = 1;
  const TaskId b = builder.add(task, std::array{a});
  builder.wait(a, b);
  CHECK_THROWS_AS(std::move(builder).build(), Bug);
}
