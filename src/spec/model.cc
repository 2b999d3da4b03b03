#include "spec/model.h"

#include <map>

namespace ztplan {
namespace {

std::int64_t product(std::int64_t a, std::int64_t b) { return a * b; }

LayerParameters operator+(LayerParameters a, const LayerParameters& b) {
  a.attention += b.attention;
  a.key_value += b.key_value;
  a.mlp += b.mlp;
  a.experts += b.experts;
  a.replicated += b.replicated;
  return a;
}

/// Of one norm over `width` values.
std::int64_t norm_parameters(const ModelSpec& model, std::int64_t width) {
  if (!model.norm_weight) return 0;
  const bool has_bias = model.norm == Norm::layer && model.norm_bias;
  return has_bias ? 2 * width : width;
}

std::int64_t qk_norm_parameters(const ModelSpec& model, const Attention& a) {
  switch (a.qk_norm) {
    case QkNorm::none:
      return 0;
    case QkNorm::head:
      return 2 * norm_parameters(model, a.head_size);
    case QkNorm::full:
      return norm_parameters(model, product(a.heads, a.head_size)) +
             norm_parameters(model, product(a.kv_heads, a.head_size));
  }
  return 0;
}

LayerParameters plain_attention(const ModelSpec& model, const Attention& a) {
  const std::int64_t h = model.hidden;
  const std::int64_t q = product(a.heads, a.head_size);
  const std::int64_t kv = 2 * product(a.kv_heads, a.head_size);
  LayerParameters p;
  p.attention = 2 * h * q + (a.qkv_bias ? q : 0) + (a.sinks ? a.heads : 0);
  p.key_value = h * kv + (a.qkv_bias ? kv : 0);
  p.replicated = qk_norm_parameters(model, a) + (a.output_bias ? h : 0);
  return p;
}

/// Source: DeepSeek-V2, arXiv 2405.04434, section 2.1 and appendix C; biases
/// as in transformers, modeling_deepseek_v2.py: on the down projections only.
LayerParameters latent_attention(const ModelSpec& model, const Attention& a) {
  const Latent& latent = a.latent;
  const std::int64_t h = model.hidden;
  const std::int64_t q = product(a.heads, latent.nope_size + latent.rope_size);
  const std::int64_t up =
      product(a.heads, latent.nope_size + latent.value_size);
  const std::int64_t out = product(a.heads, latent.value_size);
  const std::int64_t q_input = latent.q_rank > 0 ? latent.q_rank : h;
  const std::int64_t down = latent.q_rank + latent.kv_rank + latent.rope_size;
  LayerParameters p;
  p.attention = q_input * q + latent.kv_rank * up + out * h;
  p.replicated = h * down + (a.qkv_bias ? down : 0) +
                 norm_parameters(model, latent.q_rank) +
                 norm_parameters(model, latent.kv_rank) +
                 (a.output_bias ? h : 0);
  return p;
}

LayerParameters attention_parameters(const ModelSpec& model,
                                     const Attention& a) {
  const LayerParameters one =
      a.is_latent() ? latent_attention(model, a) : plain_attention(model, a);
  return a.cross ? one + one : one;
}

/// Matrices into (one, or two when gated) and out of an MLP of `width`.
std::int64_t mlp_matrices(const FeedForward& f, std::int64_t hidden,
                          std::int64_t width) {
  return (f.gated ? 3 : 2) * hidden * width;
}

std::int64_t first_biases(const FeedForward& f, std::int64_t width) {
  return f.gated ? 2 * width : width;
}

std::int64_t expert_parameters(const FeedForward& f, std::int64_t hidden) {
  return mlp_matrices(f, hidden, f.expert_width) +
         (f.bias ? first_biases(f, f.expert_width) + hidden : 0);
}

LayerParameters ffn_parameters(const FeedForward& f, std::int64_t hidden) {
  const std::int64_t width = f.is_moe() ? f.shared_width : f.width;
  const bool biased = f.bias || f.shared_bias;
  LayerParameters p;
  p.mlp = mlp_matrices(f, hidden, width);
  if (biased) p.mlp += first_biases(f, width);
  if (biased && width > 0) p.replicated += hidden;
  if (!f.is_moe()) return p;
  p.experts = f.experts * expert_parameters(f, hidden);
  p.replicated += f.experts * hidden + (f.router_bias ? f.experts : 0) +
                  (f.shared_gate ? hidden : 0);
  return p;
}

/// Heads of the first layer of each stack: they own the relative bias tables.
std::int64_t relative_bias_heads(const ModelSpec& model) {
  std::int64_t heads = 0;
  int first = 0;
  for (const LayerGroup& group : model.layers) {
    const int next = first + group.count;
    if (first == 0) heads += group.layer.attention.heads;
    const bool starts_decoder = model.encoder_layers > 0 &&
                                first <= model.encoder_layers &&
                                model.encoder_layers < next;
    if (starts_decoder) heads += group.layer.attention.heads;
    first = next;
  }
  return heads;
}

std::int64_t embedding_width(const ModelSpec& model) {
  return model.embedding_size > 0 ? model.embedding_size : model.hidden;
}

/// Routed experts of one layer that a token does not visit.
std::int64_t idle_parameters(const ModelSpec& model, const FeedForward& f) {
  if (!f.is_moe()) return 0;
  return (f.experts - f.top_k) * expert_parameters(f, model.hidden);
}

}  // namespace

LayerParameters layer_parameters(const ModelSpec& model, const Layer& layer) {
  LayerParameters norms;
  norms.replicated = layer.norms * norm_parameters(model, model.hidden);
  return norms + attention_parameters(model, layer.attention) +
         ffn_parameters(layer.ffn, model.hidden);
}

std::int64_t embedding_parameters(const ModelSpec& model) {
  return product(model.vocab, embedding_width(model));
}

std::int64_t embedding_extra_parameters(const ModelSpec& model) {
  const std::int64_t width = embedding_width(model);
  const std::int64_t projections =
      width == model.hidden ? 0 : 2 * width * model.hidden;
  const std::int64_t norm =
      model.embedding_norm ? norm_parameters(model, width) : 0;
  const std::int64_t relative =
      model.relative_buckets > 0
          ? model.relative_buckets * relative_bias_heads(model)
          : 0;
  return product(model.position_rows, model.hidden) + norm + projections +
         relative;
}

std::int64_t head_parameters(const ModelSpec& model) {
  const std::int64_t bias = model.head_bias ? model.vocab : 0;
  if (model.tied) return bias;
  return product(model.vocab, embedding_width(model)) + bias;
}

std::int64_t final_norm_parameters(const ModelSpec& model) {
  if (!model.final_norm) return 0;
  const int stacks = model.encoder_layers > 0 ? 2 : 1;
  return stacks * norm_parameters(model, model.hidden);
}

std::int64_t parameters(const ModelSpec& model) {
  std::int64_t sum = embedding_parameters(model) +
                     embedding_extra_parameters(model) +
                     head_parameters(model) + final_norm_parameters(model);
  for (const LayerGroup& group : model.layers)
    sum += group.count * layer_parameters(model, group.layer).total();
  return sum;
}

std::int64_t active_parameters(const ModelSpec& model) {
  std::int64_t sum = parameters(model);
  for (const LayerGroup& group : model.layers)
    sum -= group.count * idle_parameters(model, group.layer.ffn);
  return sum;
}

int layer_count(const ModelSpec& model) {
  int count = 0;
  for (const LayerGroup& group : model.layers) count += group.count;
  return count;
}

void append_layers(ModelSpec& model, int count, const Layer& layer) {
  const bool continues =
      !model.layers.empty() && model.layers.back().layer == layer;
  if (continues)
    model.layers.back().count += count;
  else if (count > 0)
    model.layers.push_back({count, layer});
}

LayerKinds layer_kinds(const ModelSpec& model) {
  LayerKinds result;
  std::map<Layer, int> seen;
  for (const LayerGroup& group : model.layers) {
    const int next = static_cast<int>(result.kinds.size());
    const auto [at, is_new] = seen.try_emplace(group.layer, next);
    if (is_new) result.kinds.push_back(group.layer);
    result.kind_of_layer.insert(result.kind_of_layer.end(),
                                static_cast<std::size_t>(group.count),
                                at->second);
  }
  return result;
}

}  // namespace ztplan
