#include <vector>

#include "step/layer_work.h"
#include "strategy/layer_memory.h"

namespace ztplan {
namespace {

// Backward computes two products, of inputs and of weights, for each forward
// one; weights that are frozen need no gradient (LoRA, arXiv 2106.09685,
// section 4.2: their gradients are not calculated).
constexpr double kPasses = 3, kFrozenPasses = 2;

/// Products and attention of one recipe, forward and backward.
Flops recipe_flops(const Recipe& recipe, AttentionCount count, bool frozen) {
  Flops sum;
  for (const Item& item : recipe.items) {
    Work work = item.work;
    auto* attention = std::get_if<AttentionWork>(&work);
    if (attention != nullptr)
      attention->causal = attention->causal && count == AttentionCount::causal;
    const bool two = frozen && attention == nullptr;
    sum += flops(work) *
           (static_cast<double>(item.count) * (two ? kFrozenPasses : kPasses));
  }
  return sum;
}

/// Of the adapters beside one layer, for one token.
Flops adapter_flops(const ModelSpec& model, const Layer& layer,
                    const Adapters& adapters) {
  if (!adapters.any()) return {};
  Workload workload;
  workload.adapters = adapters;
  const LayerShare share = layer_share(model, layer, workload, {});
  const FeedForward& ffn = layer.ffn;
  const double used = ffn.is_moe() ? static_cast<double>(ffn.top_k) /
                                         static_cast<double>(ffn.experts)
                                   : 0;
  constexpr double kMultiplyAdd = 2;
  return {kPasses * kMultiplyAdd *
          (static_cast<double>(share.trained_dense) +
           used * static_cast<double>(share.trained_experts))};
}

}  // namespace

Flops model_flops(const ModelSpec& model, int sequence, AttentionCount count,
                  const Adapters& adapters) {
  const ClusterSpec cluster;
  Workload workload;
  workload.sequence = sequence;
  const Setting setting{model, cluster, workload};  // without adapters
  const Strategy whole;
  const auto a_token = [&](const Recipe& recipe) {
    return recipe_flops(recipe, count, adapters.any()) / sequence;
  };
  Flops sum = a_token(head_forward(setting, whole, model.vocab));
  for (const LayerGroup& group : model.layers)
    sum += (a_token(layer_forward(setting, group.layer, whole)) +
            adapter_flops(model, group.layer, adapters)) *
           static_cast<double>(group.count);
  return sum;
}

}  // namespace ztplan
