// What must hold whatever the numbers: invariants that planners break.
#include <doctest/doctest.h>

#include <algorithm>

#include "support/planning.h"
#include "time/step_counts.h"

using namespace ztplan;

namespace {

double step_of(const Question& q, const Strategy& s) {
  const Engine* engine = engine_for(q, s);
  REQUIRE(engine != nullptr);
  return estimate_step(setting_of(q), *engine, s, {q.cluster, q.calibration})
      .total()
      .value;
}

Traffic traffic_of(const Question& q, const Strategy& s) {
  const Engine* engine = engine_for(q, s);
  REQUIRE(engine != nullptr);
  return count_step(setting_of(q), *engine, s).traffic;
}

StepTime time_of(const Question& q, const std::string& strategy) {
  const Strategy s = parse_strategy(strategy, q.cluster.devices);
  const Engine* engine = engine_for(q, s);
  REQUIRE(engine != nullptr);
  return estimate_step(setting_of(q), *engine, s, {q.cluster, q.calibration});
}

}  // namespace

TEST_CASE("terms of a step add up, and no term is negative") {
  const Question q = asked("llama3-70b", "dgx-h100", 64, 8192, 256);
  for (const Legal& legal : legal_sample(q, 80, 3)) {
    CAPTURE(to_text(legal.strategy));
    const Plan plan = evaluate(q, *legal.engine, legal.strategy);
    Seconds sum;
    for (const Seconds& term : plan.time.terms) {
      CHECK(term.value >= -1e-12);
      sum += term;
    }
    CHECK(sum.value == doctest::Approx(plan.time.total().value));
    CHECK(plan.low <= plan.time.total());
    CHECK(plan.time.total() <= plan.high);
    CHECK(plan.throughput.mfu <= plan.throughput.hfu);
    CHECK(plan.throughput.hfu < 1);
  }
}

TEST_CASE("at equal types a higher ZeRO stage never lowers traffic") {
  Question q = asked("llama2-13b", "dgx-a100-80", 32, 4096, 128);
  q.workload.gradient = Precision::bf16;
  for (const char* cut : {"tp=1", "tp=4", "tp=2,pp=2", "tp=8,sp=1"}) {
    Bytes last;
    for (const int zero : {0, 1, 2, 3}) {
      const Strategy s = parse_strategy(
          std::string(cut) + ",zero=" + std::to_string(zero), 32);
      const Bytes sent = traffic_of(q, s).data;
      CAPTURE(to_text(s));
      // Shards are padded to whole elements: a few kilobytes either way.
      CHECK(sent.value >= last.value - 64 * kKiB);
      last = sent;
    }
  }
}

TEST_CASE("gradients under ZeRO 2 travel with every micro-batch") {
  Question q = asked("gpt2-xl", "dgx-a100-80", 16, 1024, 256);
  q.workload.gradient = Precision::bf16;
  const auto gradients = [&](int zero, int micro) {
    const Strategy s = parse_strategy(
        "zero=" + std::to_string(zero) + ",micro=" + std::to_string(micro), 16);
    // All-gather of parameters once a step is the same for both.
    return static_cast<double>(traffic_of(q, s).data.value);
  };
  const double gather = gradients(1, 16) / 2;
  for (const int micro : {1, 2, 4, 8, 16})
    CHECK((gradients(2, micro) - gather) / (gradients(1, micro) - gather) ==
          doctest::Approx(16.0 / micro).epsilon(0.001));
}

// pytorch/torchtitan torchtitan/distributed/fsdp.py: no resharding after
// forward under a pipeline; torch/distributed/pipelining/stage.py: gradients
// are reduced by the last backward.
TEST_CASE("a pipeline of FSDP gathers and reduces once a step") {
  const auto data = [](const char* strategy, int batch) {
    const Question q = asked("llama3-8b", "dgx-h100", 16, 8192, batch);
    return count_step(setting_of(q), find_engine("fsdp"),
                      parse_strategy(strategy, 16))
        .traffic.data;
  };
  CHECK(data("pp=2,dp=8,zero=3", 16) == data("pp=2,dp=8,zero=3", 64));
  CHECK(data("dp=16,zero=3", 64) / data("dp=16,zero=3", 16) ==
        doctest::Approx(4).epsilon(1e-6));
}

TEST_CASE("the bubble's share falls as micro-batches rise") {
  for (const char* cut :
       {"tp=2,pp=8", "tp=2,pp=4,vpp=2", "pp=8,schedule=gpipe"}) {
    double last = 1;
    for (const int batch : {64, 128, 256, 512, 1024}) {
      const Question q = asked("gpt:layers=32,hidden=2048,heads=16,vocab=50304",
                               "dgx-a100-80", 32, 2048, batch);
      const StepTime t = time_of(q, cut);
      const double share = t[TimeTerm::bubble] / t.total();
      CAPTURE(cut);
      CAPTURE(batch);
      CHECK(share < last);
      last = share;
    }
  }
}

TEST_CASE("weights divide by tensor and pipeline, and so does their traffic") {
  Question q = asked("gpt:layers=32,hidden=4096,heads=32,vocab=51200",
                     "dgx-h100", 64, 2048, 64);
  const auto data = [&](const char* text) {
    return static_cast<double>(
        traffic_of(q, parse_strategy(text, 64)).data.value);
  };
  // Per rank of equal data parallelism, 15/16 of the gradients twice.
  q = asked("gpt:layers=32,hidden=4096,heads=32,vocab=51200", "dgx-h100", 16,
            2048, 64);
  const double whole =
      static_cast<double>(traffic_of(q, parse_strategy("tp=1", 16)).data.value);
  q = asked("gpt:layers=32,hidden=4096,heads=32,vocab=51200", "dgx-h100", 64,
            2048, 64);
  CHECK(data("tp=4") == doctest::Approx(whole / 4).epsilon(0.01));
  // The embedding stands on one stage, so stages divide all but it.
  CHECK(data("pp=4") == doctest::Approx(whole / 4).epsilon(0.15));
}

TEST_CASE("more bandwidth, and faster devices, never slow a plan") {
  const Question q = asked("llama3-70b", "aws-p4d.24xlarge", 64, 4096, 128);
  for (const Legal& legal : legal_sample(q, 60, 5)) {
    CAPTURE(to_text(legal.strategy));
    const double before = step_of(q, legal.strategy);
    for (std::size_t level = 0; level < q.cluster.levels.size(); ++level) {
      Question faster = q;
      faster.cluster.levels[level].bandwidth =
          faster.cluster.levels[level].bandwidth * 1.7;
      CHECK(step_of(faster, legal.strategy) <= before * (1 + 1e-9));
    }
    Question wider = q;
    wider.cluster.device.memory_bandwidth =
        wider.cluster.device.memory_bandwidth * 1.3;
    CHECK(step_of(wider, legal.strategy) <= before * (1 + 1e-9));
    Question closer = q;
    closer.cluster.host.device_link = closer.cluster.host.device_link * 2.0;
    CHECK(step_of(closer, legal.strategy) <= before * (1 + 1e-9));
  }
}

TEST_CASE("recomputation costs time, and offload where nothing lacks") {
  const Question q = asked("llama2-7b", "dgx-a100-80", 8, 2048, 64);
  CHECK(time_of(q, "zero=1,recompute=none").total() <
        time_of(q, "zero=1,recompute=selective:norms").total());
  CHECK(time_of(q, "zero=1,recompute=selective:norms").total() <
        time_of(q, "zero=1,recompute=full").total());
  CHECK(time_of(q, "zero=1,recompute=selective:norms").total() <
        time_of(q, "zero=1,recompute=selective:mlp").total());
  CHECK(time_of(q, "zero=1,recompute=selective:norms+mlp").total() <
        time_of(q, "zero=1,recompute=full").total());
  CHECK(time_of(q, "zero=1").total() <
        time_of(q, "zero=1,offload=cpu").total());
  CHECK(time_of(q, "zero=1,offload=cpu").total() <
        time_of(q, "zero=1,offload=nvme").total());
}
