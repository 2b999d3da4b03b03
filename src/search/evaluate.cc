#include "search/evaluate.h"

#include "search/interval.h"
#include "time/price.h"

namespace ztplan {

Question question_of(const Question& question, const Plan& plan) {
  Question own = question;
  if (plan.gpus < question.cluster.devices)
    own.cluster = first_devices(question.cluster, plan.gpus);
  return own;
}

std::optional<Shortage> shortage(const Question& question,
                                 const Fullness& full) {
  const ClusterSpec& cluster = question.cluster;
  const Bytes device = full.device - usable_memory(cluster, question.margin);
  if (device.value > 0) return Shortage{Tier::device, device};
  const Bytes host = node_bytes(full.host, cluster) - cluster.host.memory;
  if (host.value > 0) return Shortage{Tier::host, host};
  const Bytes nvme = node_bytes(full.nvme, cluster) - cluster.host.nvme;
  if (nvme.value > 0) return Shortage{Tier::nvme, nvme};
  return std::nullopt;
}

std::optional<Shortage> shortage(const Question& question,
                                 const MemoryBreakdown& memory) {
  return shortage(question, fullness(memory));
}

Fit fit_of(const Question& question, const Plan& plan) {
  if (shortage(question, plan.memory)) return Fit::does_not_fit;
  const Bytes free = plan.capacity - plan.memory.peak();
  return free / plan.capacity < kTightShare ? Fit::tight : Fit::fits;
}

std::string_view to_text(Fit fit) {
  if (fit == Fit::fits) return "fits";
  return fit == Fit::tight ? "tight" : "does not fit";
}

const Engine* engine_for(const Question& question, const Strategy& strategy) {
  const Setting setting{question.model, question.cluster, question.workload};
  for (const Engine* engine : question.engines)
    if (broken_rule(*engine, setting, strategy) == nullptr) return engine;
  return nullptr;
}

Plan evaluate(const Question& question, const Engine& engine,
              const Strategy& strategy) {
  const Setting setting{question.model, question.cluster, question.workload};
  Plan plan;
  plan.strategy = strategy;
  plan.engine = &engine;
  plan.gpus = devices(strategy);
  plan.stages = stage_memory(setting, engine, strategy);
  for (const MemoryBreakdown& stage : plan.stages)
    if (plan.memory.peak() < stage.peak()) plan.memory = stage;
  plan.capacity = usable_memory(question.cluster, question.margin);
  plan.time = estimate_step(setting, engine, strategy,
                            {question.cluster, question.calibration});
  const StepInterval step =
      step_interval(plan.time.total(), step_swings(question, plan),
                    rest_of(question.calibration));
  plan.low = step.low;
  plan.high = step.high;
  const StepCounts counts = count_step(setting, engine, strategy);
  plan.traffic = counts.traffic;
  plan.throughput =
      throughput(setting, strategy, counts.recomputed, plan.time.total());
  return plan;
}

}  // namespace ztplan
