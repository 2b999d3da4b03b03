#include "strategy/parameter_tensors.h"

#include <algorithm>

#include "base/units.h"
#include "strategy/layer_memory.h"

namespace ztplan {
namespace {

/// Collects tensors; those cut by tensor parallelism as one device holds them.
class Tensors {
 public:
  Tensors(const ModelSpec& model, const Strategy& strategy)
      : model_(model), s_(strategy) {}

  TensorList list() && { return std::move(list_); }

  void add(std::int64_t count, std::int64_t elements) {
    if (count > 0 && elements > 0) list_.push_back({count, elements});
  }

  void add_norms(std::int64_t count, std::int64_t width) {
    if (!model_.norm_weight) return;
    const bool has_bias = model_.norm == Norm::layer && model_.norm_bias;
    add(has_bias ? 2 * count : count, width);
  }

  void add_attention(const Attention& a) {
    if (a.is_latent())
      add_latent(a);
    else
      add_plain(a);
    if (a.output_bias) add(1, model_.hidden);
  }

  void add_ffn(const FeedForward& f) {
    const std::int64_t width = f.is_moe() ? f.shared_width : f.width;
    if (width > 0) add_mlp(f, 1, width, s_.tensor);
    if (!f.is_moe()) return;
    add_mlp(f, divide_up(f.experts, std::min(s_.expert, f.experts)),
            f.expert_width, s_.expert_tensor);
    add(1, std::int64_t{f.experts} * model_.hidden);
    if (f.router_bias) add(1, f.experts);
    if (f.shared_gate) add(1, model_.hidden);
  }

  void add_adapters(const Layer& layer, const Adapters& adapters) {
    add_adapted(adapted_attention(model_, layer.attention, adapters, s_.tensor),
                adapters.rank, layer.attention.cross ? 2 : 1);
    const FeedForward& f = layer.ffn;
    const std::int64_t width = f.is_moe() ? f.shared_width : f.width;
    if (width > 0)
      add_adapted(adapted_mlp(model_, width, f.gated, adapters, s_.tensor),
                  adapters.rank, 1);
    if (!f.is_moe()) return;
    add_adapted(adapted_mlp(model_, f.expert_width, f.gated, adapters,
                            s_.expert_tensor),
                adapters.rank,
                divide_up(f.experts, std::min(s_.expert, f.experts)));
  }

 private:
  void add_plain(const Attention& a) {
    const std::int64_t h = model_.hidden;
    const std::int64_t query = std::int64_t{a.heads} * a.head_size;
    const std::int64_t key = std::int64_t{a.kv_heads} * a.head_size;
    const std::int64_t q = divide_up(query, s_.tensor);
    const std::int64_t kv =
        divide_up(key, std::clamp(a.kv_heads, 1, s_.tensor));
    add(2, h * q);
    add(2, h * kv);
    if (a.qkv_bias) {
      add(1, q);
      add(2, kv);
    }
    if (a.sinks) add(1, divide_up(a.heads, s_.tensor));
    if (a.qk_norm == QkNorm::head) add_norms(2, a.head_size);
    if (a.qk_norm != QkNorm::full) return;
    add_norms(1, query);
    add_norms(1, key);
  }

  void add_latent(const Attention& a) {
    const Latent& latent = a.latent;
    const std::int64_t h = model_.hidden;
    const auto of_heads = [&](std::int64_t size) {
      return divide_up(a.heads * size, s_.tensor);
    };
    const std::int64_t down = latent.kv_rank + latent.rope_size;
    const std::int64_t q_input = latent.q_rank > 0 ? latent.q_rank : h;
    add(1, q_input * of_heads(latent.nope_size + latent.rope_size));
    add(1, latent.kv_rank * of_heads(latent.nope_size + latent.value_size));
    add(1, of_heads(latent.value_size) * h);
    add(1, h * latent.q_rank);
    add(1, h * down);
    if (a.qkv_bias) {
      add(1, latent.q_rank);
      add(1, down);
    }
    add_norms(1, latent.q_rank);
    add_norms(1, latent.kv_rank);
  }

  /// `count` MLPs.
  void add_mlp(const FeedForward& f, std::int64_t count, std::int64_t width,
               std::int64_t tensor) {
    const std::int64_t share = divide_up(width, tensor);
    add((f.gated ? 3 : 2) * count, model_.hidden * share);
    if (!f.bias) return;
    add(f.gated ? 2 * count : count, share);
    add(count, model_.hidden);
  }

  void add_adapted(const std::vector<Adapted>& adapted, std::int64_t rank,
                   std::int64_t count) {
    for (const Adapted& each : adapted) {
      add(count, rank * each.inputs);
      add(count, rank * each.outputs);
    }
  }

  const ModelSpec& model_;
  const Strategy& s_;
  TensorList list_;
};

std::int64_t table_width(const ModelSpec& model) {
  return model.embedding_size > 0 ? model.embedding_size : model.hidden;
}

}  // namespace

TensorList layer_tensors(const ModelSpec& model, const Layer& layer,
                         const Workload& workload, const Strategy& strategy) {
  Tensors tensors(model, strategy);
  tensors.add_norms(layer.norms, model.hidden);
  const int attentions = layer.attention.cross ? 2 : 1;
  for (int i = 0; i < attentions; ++i) tensors.add_attention(layer.attention);
  tensors.add_ffn(layer.ffn);
  if (workload.adapters.any()) tensors.add_adapters(layer, workload.adapters);
  return std::move(tensors).list();
}

TensorList embedding_tensors(const ModelSpec& model, const Strategy& strategy,
                             std::int64_t padded_vocab) {
  const std::int64_t width = table_width(model);
  Tensors tensors(model, strategy);
  tensors.add(1, divide_up(padded_vocab, strategy.tensor) * width);
  tensors.add(1, std::int64_t{model.position_rows} * model.hidden);
  if (model.embedding_norm) tensors.add_norms(1, width);
  if (width != model.hidden) tensors.add(2, width * model.hidden);
  if (model.relative_buckets == 0) return std::move(tensors).list();
  const int stacks = model.encoder_layers > 0 ? 2 : 1;
  const int heads = model.layers.front().layer.attention.heads;
  tensors.add(stacks, std::int64_t{model.relative_buckets} * heads);
  return std::move(tensors).list();
}

TensorList norm_tensors(const ModelSpec& model, const Strategy& strategy,
                        std::int64_t padded_vocab) {
  Tensors tensors(model, strategy);
  const int stacks = model.encoder_layers > 0 ? 2 : 1;
  if (model.final_norm) tensors.add_norms(stacks, model.hidden);
  if (model.head_bias) tensors.add(1, divide_up(padded_vocab, strategy.tensor));
  return std::move(tensors).list();
}

std::int64_t small_elements(const TensorList& tensors, std::int64_t threshold) {
  std::int64_t sum = 0;
  for (const ParameterTensors& each : tensors)
    if (each.elements <= threshold) sum += each.count * each.elements;
  return sum;
}

}  // namespace ztplan
