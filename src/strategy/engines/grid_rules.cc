// Rules of the grid of devices and of what tensor parallelism cuts.
#include <fmt/format.h>

#include "strategy/engines/rules.h"

namespace ztplan {
namespace {

constexpr Size kTensor = {"tp", &Strategy::tensor};
constexpr Size kData = {"dp", &Strategy::data};

bool sizes_broken(const Setting&, const Strategy& s) {
  constexpr int kHighestZero = 3;
  const int smallest = std::min({s.tensor, s.pipeline, s.virtual_stages,
                                 s.context, s.expert, s.data, s.micro_batch});
  return smallest < 1 || s.shard_group < 0 || s.zero < 0 ||
         s.zero > kHighestZero;
}

Misfit explain_sizes(const Setting&, const Strategy& s) {
  return because(
      fmt::format("a size is out of range in {}", to_text(s)),
      "tp, pp, vpp, cp, ep, dp and micro from 1, shard from 0, zero 0 to 3");
}

bool devices_broken(const Setting& g, const Strategy& s) {
  return devices(s) != g.cluster.devices;
}

// "1023 GPUs or 1026 GPUs or tp 2 or tp 4": device counts that tp*pp*cp
// divides, and the closest sizes of tensor that divide the devices there are.
std::string nearest_grids(int gpus, const Strategy& s) {
  const std::int64_t rest = std::int64_t{s.context} * s.pipeline;
  const std::int64_t unit = rest * s.tensor;
  const std::int64_t below = gpus / unit * unit;
  std::vector<std::string> found;
  if (below > 0) found.push_back(fmt::format("{} GPUs", below));
  found.push_back(fmt::format("{} GPUs", below + unit));
  const auto divides = [&](int tensor) { return gpus % (tensor * rest) == 0; };
  int less = std::min(s.tensor, gpus), more = s.tensor;
  while (less > 0 && !divides(less)) --less;
  while (more <= gpus && !divides(more)) ++more;
  if (less > 0) found.push_back(fmt::format("tp {}", less));
  if (more <= gpus) found.push_back(fmt::format("tp {}", more));
  return fmt::format("{}", fmt::join(found, " or "));
}

Misfit explain_devices(const Setting& g, const Strategy& s) {
  std::string nearest =
      nearest_sizes(kData, g.cluster.devices, devices_broken, g, s);
  if (nearest.empty()) nearest = nearest_grids(g.cluster.devices, s);
  return because(
      fmt::format("tp*pp*cp*dp = {}*{}*{}*{} is {} devices, not {}", s.tensor,
                  s.pipeline, s.context, s.data, devices(s), g.cluster.devices),
      nearest);
}

// Layers often share their heads, so that equal neighbours need one division.
bool heads_broken(const Setting& g, const Strategy& s) {
  if (s.tensor == 1) return false;
  int checked = 0;
  return any_layer(g.model, [&](const Layer& layer) {
    if (layer.attention.heads == checked) return false;
    checked = layer.attention.heads;
    return checked % s.tensor != 0;
  });
}

Misfit explain_heads(const Setting& g, const Strategy& s) {
  const Layer* layer = find_layer(g.model, [&](const Layer& each) {
    return each.attention.heads % s.tensor != 0;
  });
  return because(
      fmt::format("{} heads are not a multiple of tp {}",
                  layer->attention.heads, s.tensor),
      nearest_sizes(kTensor, layer->attention.heads, heads_broken, g, s));
}

bool kv_heads_uncut(int kv_heads, int tensor) {
  return kv_heads % tensor != 0 && tensor % kv_heads != 0;
}

bool kv_heads_broken(const Setting& g, const Strategy& s) {
  if (s.tensor == 1) return false;
  int checked = 0;
  return any_layer(g.model, [&](const Layer& layer) {
    const int kv_heads = key_value_heads(layer.attention);
    if (kv_heads == checked) return false;
    checked = kv_heads;
    return kv_heads_uncut(kv_heads, s.tensor);
  });
}

Misfit explain_kv_heads(const Setting& g, const Strategy& s) {
  const Layer* layer = find_layer(g.model, [&](const Layer& each) {
    return kv_heads_uncut(key_value_heads(each.attention), s.tensor);
  });
  return because(
      fmt::format("{} key/value heads neither divide tp {} nor are divided",
                  key_value_heads(layer->attention), s.tensor),
      nearest_sizes(kTensor, layer->attention.heads, kv_heads_broken, g, s));
}

// What tensor parallelism cuts of a feed-forward: a layer of experts keeps its
// experts whole and cuts those that all tokens share.
int cut_width(const FeedForward& ffn) {
  return ffn.is_moe() ? ffn.shared_width : ffn.width;
}

bool width_broken(const Setting& g, const Strategy& s) {
  if (s.tensor == 1) return false;
  int checked = 0;
  return any_layer(g.model, [&](const Layer& layer) {
    const int width = cut_width(layer.ffn);
    if (width == checked) return false;
    checked = width;
    return width % s.tensor != 0;
  });
}

Misfit explain_width(const Setting& g, const Strategy& s) {
  const Layer* layer = find_layer(g.model, [&](const Layer& each) {
    return cut_width(each.ffn) % s.tensor != 0;
  });
  return because(
      fmt::format("feed-forward width {} is not a multiple of tp {}",
                  cut_width(layer->ffn), s.tensor),
      nearest_sizes(kTensor, layer->attention.heads, width_broken, g, s));
}

constexpr Rule kRules[] = {
    {"sizes-in-range", "ztplan src/strategy/strategy.h", sizes_broken,
     explain_sizes},
    {"devices-match",
     "Narayanan et al. 2021, arXiv 2104.04473, section 3: n = p * t * d",
     devices_broken, explain_devices},
    {"heads-divide",
     "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py",
     heads_broken, explain_heads},
    {"kv-heads-divide",
     "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py",
     kv_heads_broken, explain_kv_heads},
    {"width-divides",
     "Shoeybi et al. 2019, arXiv 1909.08053, section 3: columns of A by tp",
     width_broken, explain_width},
};

}  // namespace

std::span<const Rule> grid_rules() { return kRules; }

}  // namespace ztplan
