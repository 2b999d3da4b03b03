// Rules of expert parallelism: experts are cut by `ep` and `etp`, over ranks
// that tensor, context and data parallelism share.
#include <fmt/format.h>

#include "strategy/engines/rules.h"

namespace ztplan {
namespace {

constexpr Size kExpert = {"ep", &Strategy::expert};

int most_experts(const ModelSpec& model) {
  int most = 0;
  for (const LayerGroup& group : model.layers) {
    most = std::max(most, group.layer.ffn.experts);
  }
  return most;
}

bool experts_missing(const Setting& g, const Strategy& s) {
  return expert_cut(s) > 1 && !any_layer(g.model, [](const Layer& layer) {
           return layer.ffn.is_moe();
         });
}

Misfit explain_experts_missing(const Setting& g, const Strategy& s) {
  return because(fmt::format("ep {} and etp {} cut experts, and {} has none",
                             s.expert, s.expert_tensor, g.model.name),
                 "ep 1");
}

bool experts_uncut(const FeedForward& ffn, int expert) {
  return ffn.is_moe() && ffn.experts % expert != 0;
}

bool experts_broken(const Setting& g, const Strategy& s) {
  if (s.expert == 1) return false;
  return any_layer(g.model, [&](const Layer& layer) {
    return experts_uncut(layer.ffn, s.expert);
  });
}

Misfit explain_experts(const Setting& g, const Strategy& s) {
  const Layer* layer = find_layer(g.model, [&](const Layer& each) {
    return experts_uncut(each.ffn, s.expert);
  });
  return because(
      fmt::format("{} experts are not a multiple of ep {}", layer->ffn.experts,
                  s.expert),
      nearest_sizes(kExpert, most_experts(g.model), experts_broken, g, s));
}

std::int64_t stage_ranks(const Strategy& s) {
  return std::int64_t{s.tensor} * s.context * s.data;
}

bool expert_ranks_broken(const Setting&, const Strategy& s) {
  return expert_cut(s) > 1 && stage_ranks(s) % expert_cut(s) != 0;
}

bool width_uncut(const FeedForward& ffn, int expert_tensor) {
  return ffn.is_moe() && ffn.expert_width % expert_tensor != 0;
}

bool width_broken(const Setting& g, const Strategy& s) {
  if (s.expert_tensor == 1) return false;
  return any_layer(g.model, [&](const Layer& layer) {
    return width_uncut(layer.ffn, s.expert_tensor);
  });
}

Misfit explain_width(const Setting& g, const Strategy& s) {
  const auto* layer = find_layer(g.model, [&](const Layer& each) {
    return width_uncut(each.ffn, s.expert_tensor);
  });
  return because(fmt::format("experts of width {} are not a multiple of etp {}",
                             layer->ffn.expert_width, s.expert_tensor),
                 nearest_sizes({"etp", &Strategy::expert_tensor},
                               layer->ffn.expert_width, width_broken, g, s));
}

Misfit explain_expert_ranks(const Setting& g, const Strategy& s) {
  return because(
      fmt::format("ep*etp = {}*{} does not divide tp*cp*dp = {}*{}*{} = {} "
                  "ranks of a stage",
                  s.expert, s.expert_tensor, s.tensor, s.context, s.data,
                  stage_ranks(s)),
      nearest_sizes(kExpert, g.cluster.devices, expert_ranks_broken, g, s));
}

constexpr Rule kRules[] = {
    {"expert-ranks",
     "NVIDIA/Megatron-LM megatron/core/parallel_state.py: expert data "
     "parallel size is integral",
     expert_ranks_broken, explain_expert_ranks},
    {"experts-exist",
     "NVIDIA/Megatron-LM megatron/training/arguments.py: num_experts must be "
     "non None to use expert model parallelism",
     experts_missing, explain_experts_missing},
    {"experts-divide",
     "NVIDIA/Megatron-LM megatron/training/arguments.py: num_experts % "
     "expert_model_parallel_size",
     experts_broken, explain_experts},
    {"expert-width-divides",
     "NVIDIA/Megatron-LM megatron/core/tensor_parallel/layers.py: the width of "
     "an expert divides by the expert tensor size",
     width_broken, explain_width},
};

}  // namespace

std::span<const Rule> expert_rules() { return kRules; }

}  // namespace ztplan
