#include <algorithm>

#include "strategy/layer_memory.h"

namespace ztplan {
std::int64_t expert_cut(const Strategy& s) {
  return std::int64_t{s.tensor} * s.context * s.data / expert_data(s);
}

std::int64_t expert_tensor(const Strategy& s) {
  return std::max<std::int64_t>(1, expert_cut(s) / s.expert);
}

LayerShare layer_share(const ModelSpec& model, const Layer& layer,
                       const Strategy& s) {
  const LayerParameters whole = layer_parameters(model, layer);
  const int kv_parts = std::clamp(layer.attention.kv_heads, 1, s.tensor);
  LayerShare share;
  share.dense = divide_up(whole.attention, s.tensor) +
                divide_up(whole.key_value, kv_parts) +
                divide_up(whole.mlp, s.tensor) + whole.replicated;
  share.experts = divide_up(whole.experts, expert_cut(s));
  return share;
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
