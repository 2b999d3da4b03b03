#include "report/memory_facts.h"

#include <algorithm>

namespace ztplan {
namespace {

Bytes largest_kept(const StageSizes& sizes, const Strategy& strategy) {
  const bool whole = strategy.recompute.mode == Recompute::Mode::full;
  Bytes largest;
  for (const LayerActivations& layer : sizes.activations) {
    largest = std::max(largest, whole ? layer.checkpoint : layer.saved);
  }
  return largest;
}

}  // namespace

Bytes states_of(const Plan& plan) {
  return plan.memory[Term::parameters] + plan.memory[Term::gradients] +
         plan.memory[Term::optimizer];
}

MemoryFacts memory_facts(const Question& question, const Plan& plan) {
  const Setting setting{question.model, question.cluster, question.workload};
  const Strategy& strategy = plan.strategy;
  const int stage = plan.memory.stage;
  const LayerKinds kinds = layer_kinds(question.model);
  const StageShape shape =
      stage_shapes(kinds, strategy)[static_cast<std::size_t>(stage)];
  const StageSizes sizes = stage_sizes(setting, *plan.engine, kinds, strategy);

  MemoryFacts facts;
  facts.holdings = ledger(setting, *plan.engine, sizes, shape, strategy, stage);
  facts.states = states_of(plan);
  facts.allocated = plan.memory.allocated;
  facts.reserved = reserved(plan.memory);
  facts.device_used = driver_shown(plan.memory);
  const StageShare share = stage_share(setting, sizes, shape);
  facts.load = load_peak(setting, *plan.engine, share, strategy);
  facts.save = save_peak(setting, *plan.engine, share, strategy);
  facts.activation_per_layer = largest_kept(sizes, strategy);
  facts.largest_tensor = largest_tensor(sizes);
  return facts;
}

}  // namespace ztplan
