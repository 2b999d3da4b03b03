#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "search/bound.h"
#include "search/rank.h"
#include "support/planning.h"

using namespace ztplan;

namespace {

/// What a search must find, found by trying everything.
struct Tried {
  std::string strategy;
  int zero;
  double time;
  double peak;
  std::size_t order;
};

std::tuple<double, int, double, std::size_t> ranked(const Tried& tried) {
  return {ranked_time(Seconds{tried.time}), tried.zero, tried.peak,
          tried.order};
}

struct BruteForce {
  std::int64_t candidates = 0, illegal = 0, too_big = 0;
  std::vector<Tried> fit;  // best first
};

BruteForce try_all(const Question& q) {
  BruteForce all;
  const Machine machine{q.cluster, q.calibration};
  enumerate(q, [&](const Strategy& s) {
    ++all.candidates;
    const Engine* engine = engine_for(q, s);
    if (engine == nullptr) {
      ++all.illegal;
      return;
    }
    MemoryBreakdown peak;
    for (const MemoryBreakdown& stage : stage_memory(setting_of(q), *engine, s))
      if (peak.peak() < stage.peak()) peak = stage;
    if (shortage(q, peak)) {
      ++all.too_big;
      return;
    }
    all.fit.push_back(
        {to_text(s), s.zero,
         estimate_step(setting_of(q), *engine, s, machine).total().value,
         static_cast<double>(peak.peak().value), all.fit.size()});
  });
  std::sort(all.fit.begin(), all.fit.end(),
            [&](const Tried& a, const Tried& b) {
              return q.objective == Objective::memory
                         ? std::tie(a.peak, a.time, a.order) <
                               std::tie(b.peak, b.time, b.order)
                         : ranked(a) < ranked(b);
            });
  return all;
}

void compare(Question q, Objective objective) {
  q.objective = objective;
  q.top = 25;
  const BruteForce all = try_all(q);
  const Ranking ranking = rank(q, {});
  CHECK(ranking.candidates == all.candidates);
  CHECK(ranking.illegal == all.illegal);
  CHECK(ranking.too_big == all.too_big);
  CHECK(ranking.fit == static_cast<std::int64_t>(all.fit.size()));
  CHECK(ranking.illegal + ranking.too_big + ranking.fit == ranking.candidates);
  REQUIRE(ranking.plans.size() == std::min<std::size_t>(25, all.fit.size()));
  for (std::size_t i = 0; i < ranking.plans.size(); ++i) {
    CHECK(to_text(ranking.plans[i].strategy) == all.fit[i].strategy);
    CHECK(ranking.plans[i].time.total().value ==
          doctest::Approx(all.fit[i].time).epsilon(1e-9));
  }
  MESSAGE(ranking.candidates, " candidates, ", ranking.simulated, " simulated");
}

/// Under a version of the engine that it names.
Question run_by(Question q, const char* version) {
  q.workload.framework = load_framework(version);
  return q;
}

/// Nodes of eight H100 on a network of `rate`.
Question behind(const char* model, const char* rate, int gpus, int sequence,
                int batch, const char* engine = "") {
  Request request{.model = model, .cluster = "dgx-h100", .gpus = gpus};
  request.machine.network = rate;
  request.engine = engine;
  request.sequence = sequence;
  request.global_batch = batch;
  return ask(request).question;
}

}  // namespace

TEST_CASE("a slow network leaves few steps to simulate") {
  // Bounds without sends and last reductions let a third of the space through.
  const Ranking ranking =
      rank(behind("llama2-7b", "25Gbps", 16, 4096, 1024), {});
  CHECK(ranking.simulated < ranking.fit / 100);
}

TEST_CASE("pieces of a chunk hold what the segments hold") {
  for (const std::string model : {"gpt2", "llama3-8b", "mixtral-8x7b"}) {
    CAPTURE(model);
    const Question q = asked(model, "dgx-h100", 8, 1024, 64);
    const LayerKinds kinds = layer_kinds(q.model);
    for (const char* text : {"dp=8", "pp=2,dp=4", "tp=2,dp=4,zero=1"}) {
      const Strategy s = parse_strategy(text, 8);
      const Engine& engine = *q.engines.front();
      const Setting setting = setting_of(q);
      const StageSizes sizes = stage_sizes(setting, engine, kinds, s);
      const StepParts parts{setting, engine, s, kinds, sizes};
      for (const StageShape& stage : stage_shapes(kinds, s))
        for (const int pieces : {1, 3, 5, 100}) {
          const auto cut = cut_chunk(parts, stage.chunks.front(), pieces);
          const auto shares = piece_shares(parts, stage.chunks.front(), pieces);
          REQUIRE(cut.size() == shares.size());
          for (std::size_t i = 0; i < cut.size(); ++i) {
            CHECK(cut[i].share.trained_dense == shares[i].trained_dense);
            CHECK(cut[i].share.trained_experts == shares[i].trained_experts);
          }
        }
    }
  }
}

// deepspeedai/DeepSpeed#1302: stage 2 of BERT-large only costs.
TEST_CASE("BERT-large on four GPUs is planned with stage 1, not 2") {
  Request request{.model = "bert-large", .gpus = 4};
  request.machine.gpu = "v100";
  request.engine = "deepspeed";
  Question q = ask(request).question;
  q.limits.tensor = q.limits.pipeline = q.limits.micro_batch = {1};
  q.limits.context = {1};
  q.limits.zero = {1, 2};
  q.limits.recompute = {parse_recompute("none")};
  q.limits.offload = {parse_offload("none")};
  q.top = 2;
  const Ranking ranking = rank(q, {});
  REQUIRE(ranking.plans.size() == 2);
  CHECK(ranking.plans[0].strategy.zero == 1);
  CHECK(ranking.plans[1].strategy.zero == 2);
}

TEST_CASE("steps a nanosecond apart are ranked by time") {
  CHECK(ranked_time(Seconds{1.0}) == ranked_time(Seconds{1.0 + 1e-12}));
  CHECK(ranked_time(Seconds{1.0}) < ranked_time(Seconds{1.0 + 3e-9}));
}

TEST_CASE("ZeRO on one rank is listed where it saves something") {
  for (const char* engine :
       {"megatron", "native", "deepspeed", "fsdp", "colossalai"}) {
    CAPTURE(engine);
    Request request{.model = "gpt2-xl", .cluster = "dgx-h100", .gpus = 1};
    request.engine = engine;
    Question q = ask(request).question;
    q.limits.micro_batch = {1};
    q.limits.recompute = {parse_recompute("none")};
    q.top = 50;
    std::map<std::string, Bytes> least;  // of one offload, so far
    const Ranking ranking = rank(q, {});
    CHECK(ranking.plans.front().strategy.zero == 0);
    std::vector<Plan> plans = ranking.plans;
    std::ranges::stable_sort(
        plans, {}, [](const Plan& plan) { return plan.strategy.zero; });
    for (const Plan& plan : plans) {
      const std::string offload = to_text(plan.strategy.offload);
      CAPTURE(to_text(plan.strategy));
      const Bytes peak = plan.memory.peak();
      if (least.contains(offload)) CHECK(peak < least[offload]);
      least[offload] = peak;
    }
    q.limits.zero = {3};
    for (const Plan& plan : rank(q, {}).plans) CHECK(plan.strategy.zero == 3);
  }
}

TEST_CASE("the ranking equals brute force") {
  Question small = asked("gpt:layers=4,hidden=1024,heads=8,vocab=50304",
                         "dgx-a100-80", 8, 2048, 32);
  small.limits.micro_batch = {1, 4};
  compare(small, Objective::time);
  compare(small, Objective::memory);
  Question experts = asked("mixtral-8x7b", "dgx-h100", 32, 4096, 64);
  experts.limits.micro_batch = {1};
  experts.limits.tensor = {1, 8};
  experts.limits.virtual_stages = {1, 2};
  experts.limits.recompute = {parse_recompute("none"), parse_recompute("full")};
  compare(experts, Objective::time);
  Question slow = behind("gpt:layers=8,hidden=1024,heads=8,vocab=50304",
                         "10Gbps", 16, 2048, 64);
  slow.limits.micro_batch = {1, 2};
  slow.limits.recompute = {parse_recompute("none")};
  compare(slow, Objective::time);
  Question split =
      scheduled(asked("gpt:layers=8,hidden=1024,heads=8,vocab=50304",
                      "dgx-a100-80", 8, 2048, 32),
                split_schedules());
  split.limits.schedule.push_back(Schedule::one_f_one_b);
  split.limits.micro_batch = {1, 2};
  compare(split, Objective::time);
  compare(split, Objective::memory);
}

TEST_CASE("no step is faster than its bound") {
  const Question questions[] = {
      behind("llama2-7b", "10Gbps", 16, 4096, 1024),
      behind("gpt2-xl", "1Gbps", 32, 1024, 64),
      behind("llama2-7b", "10Gbps", 16, 4096, 512, "fsdp"),
      run_by(behind("llama2-7b", "10Gbps", 16, 4096, 512, "fsdp"),
             "accelerate"),
      behind("llama2-7b", "10Gbps", 16, 4096, 512, "deepspeed"),
      behind("llama2-7b", "10Gbps", 16, 4096, 512, "colossalai"),
      behind("mixtral-8x7b", "25Gbps", 32, 2048, 128),
      asked("175b", "dgx-a100-80", 512, 2048, 1536),
      asked("llama3-70b", "dgx-h100", 64, 8192, 256),
      asked("gpt2-xl", "aws-g5.48xlarge", 16, 1024, 128),
      asked("deepseek-v3", "dgx-h100", 256, 4096, 1024),
      scheduled(behind("llama2-7b", "10Gbps", 16, 4096, 1024),
                split_schedules()),
      scheduled(behind("gpt2-xl", "1Gbps", 32, 1024, 64), split_schedules()),
      scheduled(behind("llama2-7b", "10Gbps", 16, 4096, 512, "fsdp"),
                split_schedules()),
      scheduled(asked("llama3-70b", "dgx-h100", 64, 8192, 256),
                split_schedules()),
  };
  unsigned seed = 10;
  for (const Question& q : questions) {
    const LayerKinds kinds = layer_kinds(q.model);
    FrameCache cache(q, kinds);
    StepBound bounds(cache);
    for (const Legal& legal : legal_sample(q, 60, ++seed)) {
      CAPTURE(to_text(legal.strategy));
      const Seconds bound = bounds.least_step(*legal.engine, legal.strategy);
      const Seconds step = estimate_step(setting_of(q), *legal.engine,
                                         legal.strategy, cache.machine())
                               .total();
      CHECK(bound.value > 0);
      CHECK(bound <= step);
    }
  }
}
