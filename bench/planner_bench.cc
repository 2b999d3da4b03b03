// How fast the planner plans: strategies considered per second on one core,
// simulated tasks per second, and how both grow with layers, stages and GPUs.

#include <benchmark/benchmark.h>

#include <string>

#include "search/rank.h"
#include "search/request.h"
#include "spec/catalog.h"
#include "step/build_step.h"
#include "time/simulate.h"

namespace {

using namespace ztplan;

Question question(const std::string& model, int gpus) {
  Request request;
  request.model = model;
  request.gpus = gpus;
  return ask(request).question;
}

/// The whole search of one model over the default space.
void search(benchmark::State& state, const std::string& model) {
  const Question asked = question(model, static_cast<int>(state.range(0)));
  std::int64_t candidates = 0, simulated = 0, legal = 0;
  for (auto _ : state) {
    const Ranking ranking = rank(asked, {});
    candidates += ranking.candidates;
    legal += ranking.candidates - ranking.illegal;
    simulated += ranking.simulated;
    benchmark::DoNotOptimize(ranking);
  }
  const auto per_second = [](std::int64_t count) {
    return benchmark::Counter(static_cast<double>(count),
                              benchmark::Counter::kIsRate);
  };
  state.counters["candidates/s"] = per_second(candidates);
  state.counters["legal/s"] = per_second(legal);
  state.counters["simulated"] = benchmark::Counter(
      static_cast<double>(simulated), benchmark::Counter::kAvgIterations);
  state.counters["candidates"] = benchmark::Counter(
      static_cast<double>(candidates), benchmark::Counter::kAvgIterations);
}

/// Builds, prices and simulates one step: range(0) layers on range(1) stages,
/// four micro-batches a stage.
void simulate_step(benchmark::State& state) {
  const int layers = static_cast<int>(state.range(0));
  const int stages = static_cast<int>(state.range(1));
  Question asked = question("gpt:layers=" + std::to_string(layers) +
                                ",hidden=8192,heads=64,vocab=51200",
                            8 * stages);
  asked.workload.global_batch = 4 * stages;
  const Strategy strategy =
      parse_strategy("tp=8,pp=" + std::to_string(stages) + ",sp=1", 8 * stages);
  const Setting setting{asked.model, asked.cluster, asked.workload};
  std::int64_t tasks = 0;
  for (auto _ : state) {
    const StepGraph graph =
        build_step(setting, *asked.engines.front(), strategy, 4 * stages);
    const PriceList prices =
        price_all(graph, {asked.cluster, asked.calibration});
    benchmark::DoNotOptimize(simulate(graph, prices));
    tasks += static_cast<std::int64_t>(graph.tasks().size());
  }
  state.counters["tasks/s"] = benchmark::Counter(static_cast<double>(tasks),
                                                 benchmark::Counter::kIsRate);
  state.counters["tasks"] = benchmark::Counter(
      static_cast<double>(tasks), benchmark::Counter::kAvgIterations);
}

BENCHMARK_CAPTURE(search, 175b, "175b")
    ->RangeMultiplier(8)
    ->Range(64, 32768)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search, llama2_7b, "llama2-7b")
    ->Arg(8)
    ->Arg(64)
    ->Arg(512)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search, deepseek_v3, "deepseek-v3")
    ->Arg(2048)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(simulate_step)
    ->ArgNames({"layers", "stages"})
    ->ArgsProduct({{32, 128}, {1, 8, 32}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
