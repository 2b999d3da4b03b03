#include "time/shared_cores.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "spec/catalog.h"
#include "spec/inputs.h"
#include "step/build_step.h"
#include "step/demand.h"
#include "support/messages.h"
#include "support/planning.h"
#include "support/temporary_directory.h"
#include "time/measured_price.h"

using namespace ztplan;

namespace {

ProbeCurve curve_of(double start, std::size_t sizes) {
  ProbeCurve curve;
  curve.coefficients.assign(sizes, 0);
  curve.coefficients[0] = start;
  curve.samples = {
      {std::vector<double>(sizes, 1), {start}, {start}, {start}, 10}};
  curve.spread = 0.5;
  return curve;
}

/// Every product takes a millisecond, every pass nothing worth telling; two
/// ranks run as fast as one, four half as fast.
MeasuredMachine machine() {
  MeasuredMachine machine;
  machine.device = "cpu-generic-2core";
  machine.sharing = {1, 1, 1.5, 2};
  machine.curves["product/fp32"] = curve_of(1e-3, 5);
  machine.curves["attention/flash/forward/fp32"] = curve_of(1e-9, 5);
  machine.curves["attention/flash/backward/fp32"] = curve_of(1e-9, 5);
  for (int i = 0; i < kOperations; ++i)
    machine.curves[std::string(to_text(static_cast<Operation>(i))) + "/fp32"] =
        curve_of(1e-9, 2);
  for (const char* op : {"all_reduce/2", "all_gather/2", "reduce_scatter/2",
                         "all_to_all/2", "send_receive/2"})
    machine.curves[op] = curve_of(1e-9, 2);
  return machine;
}

MeasuredMachine machine_file() {
  MeasuredMachine file = machine();
  file.cores = 2;
  file.complete = true;
  return file;
}

struct World {
  explicit World(int ranks) : question(asked_of(ranks)) {
    question.calibration = with_measured(
        question.calibration, std::make_shared<MeasuredMachine>(machine()));
  }
  static Question asked_of(int ranks) {
    Request request;
    request.model = "gpt:layers=4,hidden=64,heads=4,vocab=256";
    request.machine.gpu = "cpu";
    request.gpus = ranks;
    request.sequence = 32;
    request.global_batch = 16;
    request.precision = Precision::fp32;
    request.engine = "native";
    return ask(request).question;
  }
  StepTime time(const char* strategy) const {
    return estimate_step(setting_of(question), *question.engines.front(),
                         parse_strategy(strategy, question.cluster.devices),
                         {question.cluster, question.calibration});
  }
  Question question;
};

double compute(const World& world, const char* strategy) {
  return world.time(strategy)[TimeTerm::compute].value;
}

}  // namespace

TEST_CASE("ranks on cores of their own are as fast as one, others slower") {
  // 51 products a micro-batch: 4 a layer forward, 8 backward, 3 of the head.
  const double one = compute(World(1), "dp=1,micro=4");
  CHECK(one == doctest::Approx(4 * 51e-3).epsilon(0.001));
  CHECK(compute(World(2), "dp=2,micro=4") ==
        doctest::Approx(one / 2).epsilon(0.001));
  CHECK(compute(World(4), "dp=4,micro=4") ==
        doctest::Approx(one / 2).epsilon(0.001));
  CHECK(compute(World(4), "tp=2,dp=2,micro=4") ==
        doctest::Approx(one).epsilon(0.001));
}

TEST_CASE("stages that wait leave their cores to others") {
  // Two stages of two ranks: while one waits the other runs at full speed.
  const StepTime time = World(4).time("pp=2,dp=2,micro=4");
  const double all = time.total().value;
  const double alone = World(2).time("pp=2,dp=1,micro=4").total().value / 2;
  CHECK(all > 1.1 * alone);
  CHECK(all < 1.9 * alone);
}

TEST_CASE(
    "tasks of ranks that share cores run one by one, after what they need") {
  const World world(4);
  const Setting setting = setting_of(world.question);
  const Engine& engine = *world.question.engines.front();
  for (const char* text :
       {"pp=2,dp=2,micro=2", "pp=4,dp=1,micro=2", "dp=4,zero=3,micro=2",
        "pp=2,dp=2,micro=2,zero=1,offload=cpu",
        "pp=4,dp=1,micro=1,schedule=gpipe"}) {
    CAPTURE(text);
    const Strategy strategy = parse_strategy(text, 4);
    const Machine on{world.question.cluster, world.question.calibration};
    const StepGraph graph = build_step(
        setting, engine, strategy, micro_batches(strategy, setting.workload));
    const PriceList prices = price_all(graph, on);
    const Timeline timeline = run_tasks(graph, prices, engine, strategy, on);
    std::vector<Seconds> free(static_cast<std::size_t>(graph.stages()));
    for (const TaskId id : graph.order()) {
      const auto at = static_cast<std::size_t>(id);
      const Span& span = timeline.spans[at];
      for (const TaskId before : graph.predecessors(id))
        CHECK(timeline.spans[static_cast<std::size_t>(before)].end <=
              span.start);
      Seconds& last = free[static_cast<std::size_t>(graph.tasks()[at].stage)];
      CHECK(last <= span.start);
      last = span.end;
      const Seconds least =
          prices[static_cast<std::size_t>(graph.tasks()[at].recipe)].total;
      CHECK(span.end - span.start >= least * (1 - 1e-9));
      CHECK(span.end - span.start <= least * (2 + 1e-9) + Seconds{1e-15});
    }
    const StepTime time = break_down_shared(graph, prices, timeline, 0);
    CHECK(time.total().value == doctest::Approx(timeline.end().value));
  }
}

TEST_CASE("runs stretch a step by what was learnt for its ranks") {
  World world(4);
  const double before = world.time("dp=4,micro=4").total().value;
  MeasuredMachine learnt = machine();
  learnt.step_factors = {1, 1, 1, 1.25};
  world.question.calibration.measured =
      std::make_shared<MeasuredMachine>(learnt);
  CHECK(world.time("dp=4,micro=4").total().value ==
        doctest::Approx(1.25 * before));
}

TEST_CASE("a measured price is its curve's, within its spread, or none") {
  const World world(2);
  const Calibration& calibration = world.question.calibration;
  const auto measured = [&](const Work& work, const Calibration& by) {
    return measured_price(work, {world.question.cluster, by});
  };
  const Work product = Matmul{8, 8, 8, 3, Precision::fp32};
  CHECK(measured(product, calibration)->value == doctest::Approx(3e-3));
  CHECK_FALSE(measured(Matmul{8, 8, 8, 1, Precision::bf16}, calibration));
  const double slow =
      measured(product, moved(calibration, Input::products, End::slow))->value;
  const double fast =
      measured(product, moved(calibration, Input::products, End::fast))->value;
  CHECK(slow == doctest::Approx(4.5e-3));
  CHECK(fast == doctest::Approx(2e-3));
  CHECK(measured(product, slowed(calibration, 0.5))->value ==
        doctest::Approx(6e-3));
  // Groups of four were not measured: those of two, in proportion.
  const auto reduced = [&](int ranks) {
    return measured(
               Collective{CollectiveOp::all_reduce, {ranks, 1}, Bytes{1000}},
               calibration)
        ->value;
  };
  CHECK(reduced(4) == doctest::Approx(2 * reduced(2)));
}

TEST_CASE("a calibration of another device is refused") {
  const TemporaryDirectory folder;
  Request request;
  request.model = "gpt:layers=4,hidden=64,heads=4,vocab=256";
  request.sequence = 32;
  request.calibration = folder.write("m.json", to_json(machine_file()));
  CHECK(ask(request).question.cluster.device.id == "cpu-generic-2core");
  request.cluster = "dgx-h100";
  CHECK(refusal([&] { ask(request); }).find("not h100-sxm-80gb") !=
        std::string::npos);
}
