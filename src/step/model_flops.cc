#include <vector>

#include "step/layer_work.h"

namespace ztplan {
namespace {

// Backward computes two products, of inputs and of weights, for each forward
// one.
constexpr double kPasses = 3;

/// Products and attention of one recipe.
Flops recipe_flops(const Recipe& recipe, AttentionCount count) {
  Flops sum;
  for (const Item& item : recipe.items) {
    Work work = item.work;
    if (auto* attention = std::get_if<AttentionWork>(&work))
      attention->causal = attention->causal && count == AttentionCount::causal;
    sum += flops(work) * static_cast<double>(item.count);
  }
  return sum;
}

}  // namespace

Flops model_flops(const ModelSpec& model, int sequence, AttentionCount count) {
  const ClusterSpec cluster;
  Workload workload;
  workload.sequence = sequence;
  const Setting setting{model, cluster, workload};
  const Strategy whole;
  Flops forward;
  for (const LayerGroup& group : model.layers)
    forward += recipe_flops(layer_forward(setting, group.layer, whole), count) *
               static_cast<double>(group.count);
  forward += recipe_flops(head_forward(setting, whole, model.vocab), count);
  return forward * (kPasses / sequence);
}

}  // namespace ztplan
