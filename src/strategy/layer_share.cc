#include <algorithm>

#include "strategy/layer_memory.h"

namespace ztplan {
namespace {

std::int64_t weights(int rank, const std::vector<Adapted>& adapted) {
  std::int64_t sum = 0;
  for (const Adapted& each : adapted)
    sum += rank * (each.inputs + each.outputs);
  return sum;
}

void share_adapters(const ModelSpec& model, const Layer& layer,
                    const Adapters& adapters, const Strategy& s,
                    LayerShare& share) {
  const FeedForward& ffn = layer.ffn;
  const std::int64_t attention =
      weights(adapters.rank,
              adapted_attention(model, layer.attention, adapters, s.tensor));
  share.trained_dense = layer.attention.cross ? 2 * attention : attention;
  const auto mlp = [&](std::int64_t width, std::int64_t tensor) {
    return weights(adapters.rank,
                   adapted_mlp(model, width, ffn.gated, adapters, tensor));
  };
  const int dense_width = ffn.is_moe() ? ffn.shared_width : ffn.width;
  if (dense_width > 0) share.trained_dense += mlp(dense_width, s.tensor);
  if (!ffn.is_moe()) return;
  share.trained_experts =
      divide_up(ffn.experts * mlp(ffn.expert_width, s.expert_tensor),
                std::min<std::int64_t>(s.expert, ffn.experts));
}

}  // namespace

std::vector<Adapted> adapted_attention(const ModelSpec& model,
                                       const Attention& a,
                                       const Adapters& adapters, int tensor) {
  const std::int64_t query =
      divide_up(std::int64_t{a.heads} * a.head_size, tensor);
  const std::int64_t value =
      divide_up(std::int64_t{a.heads} *
                    (a.is_latent() ? a.latent.value_size : a.head_size),
                tensor);
  const std::int64_t inputs =
      a.latent.q_rank > 0 ? a.latent.q_rank : model.hidden;
  std::vector<Adapted> all;
  if (adapters.q) all.push_back({inputs, query});
  if (adapters.o) all.push_back({value, model.hidden});
  if (a.is_latent()) {  // one projection from the latent
    const std::int64_t both =
        std::int64_t{a.heads} * (a.latent.nope_size + a.latent.value_size);
    if (adapters.k || adapters.v)
      all.push_back({a.latent.kv_rank, divide_up(both, tensor)});
    return all;
  }
  const int parts = std::clamp(a.kv_heads, 1, tensor);
  const std::int64_t key =
      divide_up(std::int64_t{a.kv_heads} * a.head_size, parts);
  if (adapters.k) all.push_back({model.hidden, key});
  if (adapters.v) all.push_back({model.hidden, key});
  return all;
}

std::vector<Adapted> adapted_mlp(const ModelSpec& model, std::int64_t width,
                                 bool gated, const Adapters& adapters,
                                 std::int64_t tensor) {
  const std::int64_t share = divide_up(width, tensor);
  std::vector<Adapted> all;
  if (adapters.gate && gated) all.push_back({model.hidden, share});
  if (adapters.up) all.push_back({model.hidden, share});
  if (adapters.down) all.push_back({share, model.hidden});
  return all;
}

LayerShare& LayerShare::operator+=(const LayerShare& other) {
  dense += other.dense;
  experts += other.experts;
  trained_dense += other.trained_dense;
  trained_experts += other.trained_experts;
  persistent += other.persistent;
  return *this;
}

LayerShare operator*(std::int64_t count, const LayerShare& share) {
  return {count * share.dense, count * share.experts,
          count * share.trained_dense, count * share.trained_experts,
          count * share.persistent};
}

LayerShare layer_share(const ModelSpec& model, const Layer& layer,
                       const Workload& workload, const Strategy& s) {
  const LayerParameters whole = layer_parameters(model, layer);
  const int kv_parts = std::clamp(layer.attention.kv_heads, 1, s.tensor);
  LayerShare share;
  share.dense = divide_up(whole.attention, s.tensor) +
                divide_up(whole.key_value, kv_parts) +
                divide_up(whole.mlp, s.tensor) + whole.replicated;
  share.experts = divide_up(whole.experts, expert_cut(s));
  share.trained_dense = share.dense;
  share.trained_experts = share.experts;
  if (workload.adapters.any())
    share_adapters(model, layer, workload.adapters, s, share);
  return share;
}

LayerShare end_layer_share(const Workload& workload, std::int64_t parameters) {
  return {parameters, 0, workload.adapters.any() ? 0 : parameters, 0};
}

EndShare end_share(const ModelSpec& model, const Strategy& s,
                   std::int64_t padded_vocab) {
  const std::int64_t rows = divide_up(padded_vocab, s.tensor);
  const int width =
      model.embedding_size > 0 ? model.embedding_size : model.hidden;
  EndShare share;
  share.head = rows * width;
  share.embedding = share.head + embedding_extra_parameters(model);
  share.norm = final_norm_parameters(model) + (model.head_bias ? rows : 0);
  return share;
}

}  // namespace ztplan
