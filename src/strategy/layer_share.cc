#include <algorithm>

#include "strategy/layer_memory.h"

namespace ztplan {
namespace {

/// A linear layer with an adapter, and the side tensor parallelism cuts.
struct Adapted {
  std::int64_t inputs = 0, outputs = 0;
  std::int64_t input_parts = 1, output_parts = 1;
};

std::int64_t adapter(int rank, const Adapted& linear) {
  return rank * (divide_up(linear.inputs, linear.input_parts) +
                 divide_up(linear.outputs, linear.output_parts));
}

std::int64_t attention_adapters(const ModelSpec& model, const Attention& a,
                                const Adapters& adapters, int tensor) {
  const int kv_parts = std::clamp(a.kv_heads, 1, tensor);
  const std::int64_t query = std::int64_t{a.heads} * a.head_size;
  const std::int64_t key = std::int64_t{a.kv_heads} * a.head_size;
  const std::int64_t value =
      std::int64_t{a.heads} *
      (a.is_latent() ? a.latent.value_size : a.head_size);
  const std::int64_t inputs =
      a.latent.q_rank > 0 ? a.latent.q_rank : model.hidden;
  const int rank = adapters.rank;
  std::int64_t sum = 0;
  if (adapters.q) sum += adapter(rank, {inputs, query, 1, tensor});
  if (adapters.o) sum += adapter(rank, {value, model.hidden, tensor, 1});
  if (!a.is_latent()) {
    if (adapters.k) sum += adapter(rank, {model.hidden, key, 1, kv_parts});
    if (adapters.v) sum += adapter(rank, {model.hidden, key, 1, kv_parts});
  } else if (adapters.k || adapters.v) {  // one projection from the latent
    const std::int64_t both =
        std::int64_t{a.heads} * (a.latent.nope_size + a.latent.value_size);
    sum += adapter(rank, {a.latent.kv_rank, both, 1, tensor});
  }
  return a.cross ? 2 * sum : sum;
}

std::int64_t mlp_adapters(const ModelSpec& model, std::int64_t width,
                          bool gated, const Adapters& adapters, int tensor) {
  std::int64_t sum = 0;
  const Adapted up{model.hidden, width, 1, tensor};
  if (adapters.gate && gated) sum += adapter(adapters.rank, up);
  if (adapters.up) sum += adapter(adapters.rank, up);
  if (adapters.down)
    sum += adapter(adapters.rank, {width, model.hidden, tensor, 1});
  return sum;
}

void share_adapters(const ModelSpec& model, const Layer& layer,
                    const Adapters& adapters, const Strategy& s,
                    LayerShare& share) {
  const FeedForward& ffn = layer.ffn;
  share.trained_dense =
      attention_adapters(model, layer.attention, adapters, s.tensor);
  const int dense_width = ffn.is_moe() ? ffn.shared_width : ffn.width;
  if (dense_width > 0)
    share.trained_dense +=
        mlp_adapters(model, dense_width, ffn.gated, adapters, s.tensor);
  if (!ffn.is_moe()) return;
  share.trained_experts = divide_up(
      ffn.experts * mlp_adapters(model, ffn.expert_width, ffn.gated, adapters,
                                 static_cast<int>(expert_tensor(s))),
      std::min<std::int64_t>(s.expert, ffn.experts));
}

}  // namespace

LayerShare& LayerShare::operator+=(const LayerShare& other) {
  dense += other.dense;
  experts += other.experts;
  trained_dense += other.trained_dense;
  trained_experts += other.trained_experts;
  return *this;
}

LayerShare operator*(std::int64_t count, const LayerShare& share) {
  return {count * share.dense, count * share.experts,
          count * share.trained_dense, count * share.trained_experts};
}

std::int64_t expert_cut(const Strategy& s) {
  return std::int64_t{s.tensor} * s.context * s.data / expert_data(s);
}

std::int64_t expert_tensor(const Strategy& s) {
  return std::max<std::int64_t>(1, expert_cut(s) / s.expert);
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
