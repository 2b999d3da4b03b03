#include <algorithm>

#include "strategy/layer_memory.h"

namespace ztplan {
namespace {

/// A table of `vocab` rows on one device.
std::int64_t table_share(const ModelSpec& model, const Strategy& s,
                         std::int64_t vocab) {
  const int width =
      model.embedding_size > 0 ? model.embedding_size : model.hidden;
  return divide_up(vocab, s.tensor) * width;
}

}  // namespace

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

std::int64_t embedding_share(const ModelSpec& model, const Strategy& s,
                             std::int64_t vocab) {
  return table_share(model, s, vocab) + embedding_extra_parameters(model);
}

std::int64_t head_share(const ModelSpec& model, const Strategy& s,
                        std::int64_t vocab, HeadPlace place) {
  const std::int64_t bias = model.head_bias ? divide_up(vocab, s.tensor) : 0;
  const std::int64_t beside = final_norm_parameters(model) + bias;
  const bool is_shared = model.tied && place == HeadPlace::beside_embedding;
  return is_shared ? beside : beside + table_share(model, s, vocab);
}

}  // namespace ztplan
