#include "time/step_counts.h"

#include <algorithm>
#include <vector>

#include "step/build_step.h"
#include "time/attained.h"
#include "time/steady_state.h"

namespace ztplan {
namespace {

/// Of one task, or summed over the tasks of a stage.
struct Counts {
  std::array<Bytes, kTimeTerms> sent{};
  Bytes gradients;  // of what is sent for data parallelism
  Flops recomputed;
};

/// Operations with attention counted in full, as those of the model are.
Flops full_flops(Work work) {
  if (auto* attention = std::get_if<AttentionWork>(&work))
    attention->causal = false;
  return flops(work);
}

void count(const Item& item, Counts& counts) {
  const auto term = static_cast<std::size_t>(item.term);
  if (const auto* collective = std::get_if<Collective>(&item.work))
    counts.sent[term] += sent_bytes(*collective) * item.count;
  if (const auto* transfer = std::get_if<Transfer>(&item.work))
    counts.sent[term] += transfer->bytes * item.count;
  if (item.again)
    counts.recomputed +=
        full_flops(item.work) * static_cast<double>(item.count);
}

std::vector<Counts> count_recipes(const StepGraph& graph) {
  std::vector<Counts> counts(graph.recipes().size());
  for (std::size_t i = 0; i < counts.size(); ++i)
    for (const Item& item : graph.recipes()[i].items) count(item, counts[i]);
  return counts;
}

std::vector<Counts> count_stages(const StepGraph& graph) {
  const std::vector<Counts> recipes = count_recipes(graph);
  std::vector<Counts> stages(static_cast<std::size_t>(graph.stages()));
  for (const Task& task : graph.tasks()) {
    Counts& stage = stages[static_cast<std::size_t>(task.stage)];
    const Counts& recipe = recipes[static_cast<std::size_t>(task.recipe)];
    for (std::size_t i = 0; i < stage.sent.size(); ++i)
      stage.sent[i] += recipe.sent[i];
    stage.recomputed += recipe.recomputed;
    if (task.kind == TaskKind::reduce)
      stage.gradients +=
          recipe.sent[static_cast<std::size_t>(TimeTerm::data_comm)];
  }
  return stages;
}

/// Every count is affine in the number of micro-batches, so two short steps
/// give the long one.
Counts continued(const Counts& one, const Counts& two, std::int64_t periods) {
  Counts all = one;
  for (std::size_t i = 0; i < all.sent.size(); ++i)
    all.sent[i] += (two.sent[i] - one.sent[i]) * (periods - 1);
  all.gradients += (two.gradients - one.gradients) * (periods - 1);
  all.recomputed +=
      (two.recomputed - one.recomputed) * static_cast<double>(periods - 1);
  return all;
}

Traffic traffic(const Counts& counts) {
  const auto of = [&](TimeTerm term) {
    return counts.sent[static_cast<std::size_t>(term)];
  };
  return {of(TimeTerm::tensor_comm),
          of(TimeTerm::data_comm),
          of(TimeTerm::pipeline_comm),
          of(TimeTerm::context_comm),
          of(TimeTerm::expert_comm),
          of(TimeTerm::offload),
          counts.gradients};
}

/// The fewest micro-batches whose order is that of the schedule.
int least_micro_batches(const Strategy& strategy, int period) {
  return strategy.schedule == Schedule::dualpipe_v ? 2 * strategy.pipeline
                                                   : period;
}

}  // namespace

Bytes Traffic::total() const {
  return tensor + data + pipeline + context + expert + offload;
}

StepCounts count_step(const Setting& setting, const Engine& engine,
                      const Strategy& strategy) {
  const int period = rhythm(strategy);
  const int least = least_micro_batches(strategy, period);
  const std::int64_t periods =
      (micro_batches(strategy, setting.workload) - least) / period + 1;
  const auto one = count_stages(build_step(setting, engine, strategy, least));
  const auto two =
      count_stages(build_step(setting, engine, strategy, least + period));
  StepCounts counts;
  for (std::size_t stage = 0; stage < one.size(); ++stage) {
    const Counts all = continued(one[stage], two[stage], periods);
    if (counts.traffic.total() < traffic(all).total())
      counts.traffic = traffic(all);
    counts.recomputed += all.recomputed / static_cast<double>(one.size());
  }
  return counts;
}

Throughput throughput(const Setting& setting, const Strategy& strategy,
                      Flops recomputed, Seconds step) {
  const Workload& w = setting.workload;
  const double gpus = devices(strategy);
  const double tokens =
      static_cast<double>(w.global_batch) * static_cast<double>(w.sequence);
  const Flops model =
      model_flops(setting.model, w.sequence, AttentionCount::full, w.adapters) *
      (tokens / gpus);
  const FlopsPerSecond peak = product_peak(setting.cluster.device, w.precision);
  Throughput result;
  result.tokens_per_second = tokens / step.value;
  result.tokens_per_second_per_gpu = result.tokens_per_second / gpus;
  result.model_per_gpu = {model.value / step.value};
  result.hardware_per_gpu = {(model + recomputed).value / step.value};
  result.mfu = result.model_per_gpu / peak;
  result.hfu = result.hardware_per_gpu / peak;
  return result;
}

}  // namespace ztplan
