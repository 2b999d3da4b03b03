#include "strategy/layer_memory.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "strategy/capped.h"

namespace ztplan {
namespace {

constexpr std::int64_t kFp32 = 4;  // bytes
constexpr std::int64_t kFp8 = 1;
constexpr std::int64_t kIndex = 8;  // bytes of an int64 token id or index
constexpr std::int64_t kMask = 1;   // bytes of a dropout mask element

// Tokens an expert may get above an even split: Switch Transformers,
// arXiv 2101.03961, section 2.2 (capacity factor 1.25).
constexpr std::int64_t kLoadTimes = 5, kLoadOver = 4;

// Full-length tensors alive in the backward of a sequence-parallel layer:
// gathered inputs, gathered gradients and the one being reduced. Measured:
// torchtitan, Llama 3 70B, tensor 8, with and without asynchronous TP.
constexpr std::int64_t kGatheredCopies = 5;

/// What every term is made of: counts of one device.
struct Cut {
  std::int64_t tokens;  // of a micro-batch on this device, before tensor
  std::int64_t stream;  // of them in the residual stream: fewer with sp
  std::int64_t number;  // bytes of an activation
  std::int64_t input;   // and of one that waits as the input of a product
  std::int64_t hidden;
  bool eager;
  bool hidden_dropout;
  bool score_dropout;
  bool even;           // rows of experts
  bool weighs_within;  // experts, what they return
  bool narrow() const { return input < number; }
  /// `each` bytes of every token, or of every one in the residual stream.
  std::int64_t per_token(std::int64_t each) const {
    return capped_product(tokens, each);
  }
  std::int64_t per_stream(std::int64_t each) const {
    return capped_product(stream, each);
  }
};

/// Those of 4-bit products count as 8-bit ones. Source:
/// NVIDIA/TransformerEngine, pytorch/module/layernorm_linear.py,
/// linear.py and grouped_linear.py: of a quantized input, that is saved alone.
bool saves_narrow(const Workload& workload) {
  const bool is_narrow = workload.precision == Precision::fp8 ||
                         workload.precision == Precision::fp4;
  return is_narrow && workload.framework.narrow_inputs;
}

Cut cut_of(const ModelSpec& model, const Workload& workload,
           const Strategy& s) {
  Cut cut;
  cut.tokens =
      capped_product(s.micro_batch, divide_up(workload.sequence, s.context));
  cut.stream =
      s.sequence_parallel ? divide_up(cut.tokens, s.tensor) : cut.tokens;
  cut.number = activation_bytes(workload.precision);
  cut.input = saves_narrow(workload) ? kFp8 : cut.number;
  cut.hidden = model.hidden;
  cut.eager = workload.attention == AttentionKernel::eager;
  cut.hidden_dropout = model.norm == Norm::layer;
  cut.score_dropout = cut.hidden_dropout && cut.eager;
  cut.even = workload.routing == Routing::forced;
  cut.weighs_within = workload.framework.weighs_within_experts;
  return cut;
}

/// Of one dropout over hidden.
std::int64_t mask_bytes(const Cut& cut) {
  return cut.hidden_dropout ? cut.per_stream(kMask * cut.hidden) : 0;
}

/// Elements per token of one attention on one device.
struct AttentionShape {
  std::int64_t heads = 0;
  std::int64_t query = 0, key = 0, value = 0, output = 0;
  std::int64_t latent = 0;    // of the residual stream: low-rank projections
  std::int64_t unnormed = 0;  // queries and keys before their own norm
  bool grouped = false;       // fewer key/value heads than query heads
};

AttentionShape latent_shape(const Attention& a, const Strategy& s) {
  const Latent& latent = a.latent;
  AttentionShape shape;
  shape.heads = divide_up(a.heads, s.tensor);
  shape.query = shape.heads * (latent.nope_size + latent.rope_size);
  shape.key = shape.query;
  shape.value = shape.heads * latent.value_size;
  shape.output = shape.value;
  // Before and after the norm of each latent; the rotary key passes by.
  shape.latent = 2 * (latent.q_rank + latent.kv_rank) + latent.rope_size;
  return shape;
}

/// Key/value heads of one device: at least one, and under Ulysses at least one
/// for each rank that a sequence is traded with.
std::int64_t kv_heads(const Attention& a, const Strategy& s) {
  const std::int64_t local =
      divide_up(a.kv_heads, std::min(s.tensor, a.kv_heads));
  if (s.context_kind == ContextKind::ring) return local;
  return round_up(local, s.context);
}

AttentionShape attention_shape(const Attention& a, const Strategy& s) {
  if (a.is_latent()) return latent_shape(a, s);
  AttentionShape shape;
  shape.heads = divide_up(a.heads, s.tensor);
  shape.query = shape.heads * a.head_size;
  shape.key = kv_heads(a, s) * a.head_size;
  shape.value = shape.key;
  shape.output = shape.query;
  shape.grouped = a.kv_heads < a.heads;
  if (a.qk_norm != QkNorm::none) shape.unnormed = shape.query + shape.key;
  return shape;
}

/// Score elements: every query sees every key of its sequence.
std::int64_t score_count(const AttentionShape& shape, const Cut& cut,
                         const Workload& workload) {
  return cut.eager
             ? capped_product(cut.per_token(shape.heads), workload.sequence)
             : 0;
}

/// Kept per score: 16-bit probabilities, mask and dropped copy (arXiv
/// 2205.05198: 5 a s), or fp32 probabilities and their 16-bit copy.
std::int64_t saved_score_bytes(const Cut& cut) {
  if (cut.score_dropout) return 2 * cut.number + kMask;
  return cut.number == kFp32 ? kFp32 : kFp32 + cut.number;
}

/// Per score while softmax runs backward: the gradient in and out.
std::int64_t score_gradient_bytes(const Cut& cut) {
  return 2 * (cut.score_dropout ? cut.number : kFp32);
}

struct Parts {
  std::int64_t saved = 0;
  std::int64_t working = 0;
};

/// Flash attention keeps one fp32 log-sum-exp a head; its backward sums dQ in
/// fp32 and, for grouped heads, expands dK and dV. Source: flash-attention,
/// csrc/flash_attn/flash_api.cpp, mha_bwd.
Parts flash_core(const AttentionShape& shape, const Cut& cut) {
  const std::int64_t sums = kFp32 * shape.heads;
  const std::int64_t expanded =
      shape.grouped ? 2 * cut.number * shape.query : 0;
  return {cut.per_token(sums),
          cut.per_token(kFp32 * shape.query + 2 * sums + expanded)};
}

Parts eager_core(const AttentionShape& shape, const Cut& cut,
                 const Workload& workload) {
  const std::int64_t scores = score_count(shape, cut, workload);
  return {saved_score_bytes(cut) * scores, score_gradient_bytes(cut) * scores};
}

/// Scores, softmax and values. Recomputing them keeps queries, keys, values
/// and the output, which the projection needs in any case, and whose place the
/// recomputed one takes: the projection's backward has freed it by then.
Parts attention_core(const AttentionShape& shape, const Cut& cut,
                     const Workload& workload, const Recompute& recompute) {
  Parts core =
      cut.eager ? eager_core(shape, cut, workload) : flash_core(shape, cut);
  if (!recompute.attention) return core;
  core.working += core.saved;
  core.saved = 0;
  return core;
}

/// Buffers of context parallelism. Ring: K and V in flight, double buffered,
/// their travelling fp32 gradients and an fp32 output. Ulysses: a second copy
/// of what is traded. Source: TransformerEngine, attention context_parallel.
std::int64_t context_staging(const AttentionShape& shape, const Cut& cut,
                             const Strategy& s) {
  if (s.context == 1) return 0;
  const std::int64_t key_value = shape.key + shape.value;
  if (s.context_kind == ContextKind::ulysses)
    return cut.per_token(cut.number * (shape.query + key_value + shape.output));
  return cut.per_token((2 * cut.number + kFp32) * key_value +
                       kFp32 * shape.output);
}

/// What latents are projected up to, after the norm that Transformer Engine
/// joins to that product. Source: Megatron-LM, core/transformer/
/// multi_latent_attention.py, qkv_up_proj_and_rope_apply, and core/models/gpt/
/// gpt_layer_specs.py (column_parallel_layer_norm_linear).
std::int64_t up_projected(const Attention& a, const AttentionShape& shape,
                          const Cut& cut) {
  return cut.per_token(cut.number * (shape.query + shape.key + shape.value)) +
         cut.per_stream(cut.number * (a.latent.q_rank + a.latent.kv_rank));
}

/// Of an element that attention puts out: the projection reads it, as does the
/// backward of flash attention unless that runs again, and in 16 bits.
std::int64_t output_bytes(const Cut& cut, const Recompute& recompute) {
  const bool is_read_twice = cut.narrow() && !cut.eager && !recompute.attention;
  return cut.input + (is_read_twice ? cut.number : 0);
}

Parts attention_parts(const Attention& a, const Cut& cut,
                      const Workload& workload, const Strategy& s,
                      const Recompute& recompute) {
  const AttentionShape shape = attention_shape(a, s);
  const Parts core = attention_core(shape, cut, workload, recompute);
  const std::int64_t into = shape.query + shape.key + shape.value;
  const std::int64_t traded = into + shape.output;
  Parts parts;
  parts.saved = core.saved +
                cut.per_token(cut.number * (into + shape.unnormed)) +
                cut.per_token(output_bytes(cut, recompute) * shape.output) +
                cut.per_stream(cut.number * shape.latent);
  parts.saved += mask_bytes(cut);
  parts.working = core.working + cut.per_token(cut.number * traded) +
                  context_staging(shape, cut, s);
  if (recompute.mla_up_proj && a.is_latent()) {
    const std::int64_t again = up_projected(a, shape, cut);
    parts.saved -= again;
    parts.working += again;
  }
  return parts;
}

/// A module of which nothing waits: it is made again before its backward.
Parts rebuilt(const Parts& parts) { return {0, parts.saved + parts.working}; }

/// Tensors of the inner width: into the activation (two when gated) and the
/// product after it, which may be recomputed.
Parts inner_parts(const FeedForward& f, std::int64_t rows, std::int64_t width,
                  const Cut& cut, const Recompute& recompute) {
  const std::int64_t one = capped_product(rows, cut.number * width);
  const std::int64_t kept = capped_product(rows, cut.input * width);
  const std::int64_t into = f.gated ? 2 * one : one;
  Parts parts{into + kept, into + one};
  if (!recompute.activation) return parts;
  parts.saved -= kept;
  parts.working += one;
  return parts;
}

Parts dense_parts(const FeedForward& f, const Cut& cut, const Strategy& s,
                  const Recompute& recompute) {
  const std::int64_t width =
      divide_up(f.is_moe() ? f.shared_width : f.width, s.tensor);
  return inner_parts(f, cut.tokens, width, cut, recompute);
}

/// Rows of the experts of one device: the tokens it routes, as many as it is
/// sent when experts are loaded evenly, and more when they may not be.
std::int64_t expert_rows(const FeedForward& f, const Cut& cut,
                         const Strategy& s) {
  const std::int64_t rows = cut.per_stream(f.top_k);
  return s.expert > 1 && !cut.even ? divide_up(rows * kLoadTimes, kLoadOver)
                                   : rows;
}

/// Of one tensor of the inner width, dense and of experts together.
std::int64_t inner_elements(const FeedForward& f, const Cut& cut,
                            const Strategy& s) {
  const std::int64_t width =
      divide_up(f.is_moe() ? f.shared_width : f.width, s.tensor);
  const std::int64_t experts =
      f.is_moe() ? capped_product(expert_rows(f, cut, s), f.expert_width) : 0;
  return cut.per_token(width) + experts;
}

/// Router logits and probabilities in fp32 and the chosen experts; tokens sent
/// and, where they are weighed afterwards, returned, whole among the ranks that
/// share an expert; inner tensors.
/// Source: Megatron-LM, core/transformer/moe (router, token_dispatcher).
Parts expert_parts(const FeedForward& f, const Cut& cut, const Strategy& s,
                   const Recompute& recompute) {
  const std::int64_t router =
      cut.per_stream(2 * kFp32 * f.experts + kIndex * f.top_k);
  const std::int64_t rows = expert_rows(f, cut, s);
  const std::int64_t width = cut.hidden * s.expert_tensor;
  const std::int64_t moved = capped_product(rows, 2 * cut.number * width);
  const std::int64_t returned = cut.weighs_within ? 0 : cut.number;
  const std::int64_t kept =
      capped_product(rows, (cut.input + returned) * width);
  const Parts inner = inner_parts(f, rows, f.expert_width, cut, recompute);
  return {router + kept + inner.saved, router + moved + inner.working};
}

Parts moe_parts(const FeedForward& f, const Cut& cut, const Strategy& s,
                const Recompute& recompute) {
  Parts dense = dense_parts(f, cut, s, recompute);
  // The router reads what they do, in 16 bits.
  if (cut.narrow() && f.shared_width > 0)
    dense.saved += cut.per_stream(cut.input * cut.hidden);
  const Parts shared = recompute.shared_experts ? rebuilt(dense) : dense;
  const Parts routed = expert_parts(f, cut, s, recompute);
  const Parts all{shared.saved + routed.saved, shared.working + routed.working};
  return recompute.moe ? rebuilt(all) : all;
}

/// The dropout of what is added to the stream is outside of each module.
/// Source: Megatron-LM, core/transformer/transformer_layer.py (recompute_mlp,
/// mlp_bda) and moe/moe_layer.py (moe_layer_recompute).
Parts ffn_parts(const FeedForward& f, const Cut& cut, const Strategy& s,
                const Recompute& recompute) {
  Parts parts = f.is_moe() ? moe_parts(f, cut, s, recompute)
                           : dense_parts(f, cut, s, recompute);
  if (recompute.mlp && !f.is_moe()) parts = rebuilt(parts);
  parts.saved += mask_bytes(cut);
  return parts;
}

/// One tensor of the residual stream.
std::int64_t stream_bytes(const Cut& cut) {
  return cut.per_stream(cut.number * cut.hidden);
}

/// Norms that a recomputed MLP makes again: Transformer Engine joins the one
/// before it to its first product, but not the one before a router. Source:
/// Megatron-LM, core/models/gpt/gpt_layer_specs.py (pre_mlp_layernorm).
int norms_within(const Layer& layer, const Recompute& recompute) {
  const bool has_own = layer.norms > 1 && !layer.ffn.is_moe();
  return recompute.mlp && has_own ? 1 : 0;
}

/// Inputs of all norms, outputs of those before a projection, and fp32
/// statistics: mean and deviation, or the deviation alone.
Parts norm_parts(const ModelSpec& model, const Layer& layer, const Cut& cut,
                 const Recompute& recompute) {
  const int before = std::min(layer.norms, layer.attention.cross ? 3 : 2);
  const std::int64_t statistics =
      cut.per_stream((model.norm == Norm::layer ? 2 : 1) * kFp32);
  const int within = norms_within(layer, recompute);
  Parts parts;
  parts.saved =
      layer.norms * stream_bytes(cut) + (layer.norms - within) * statistics;
  if (recompute.norms || within > 0) parts.working = stream_bytes(cut);
  if (recompute.norms) return parts;
  // A router reads its norm's output as it is.
  const int wide = layer.ffn.is_moe() && before > 1 ? 1 : 0;
  parts.saved +=
      (before - within - wide) * cut.per_stream(cut.input * cut.hidden) +
      wide * stream_bytes(cut);
  return parts;
}

/// Two copies of the residual gradient while branches join, and the tensors
/// that sequence parallelism gathers.
std::int64_t stream_working(const Cut& cut, const Strategy& s) {
  const bool gathers = s.sequence_parallel && s.tensor > 1;
  return 2 * stream_bytes(cut) +
         (gathers ? cut.per_token(kGatheredCopies * cut.number * cut.hidden)
                  : 0);
}

std::int64_t widest_tensor(const Layer& layer, const Cut& cut,
                           const Strategy& s) {
  const FeedForward& f = layer.ffn;
  const std::int64_t dense =
      cut.per_token(divide_up(f.is_moe() ? f.shared_width : f.width, s.tensor));
  const std::int64_t experts =
      f.is_moe()
          ? capped_product(expert_rows(f, cut, s),
                           std::max<std::int64_t>(f.expert_width,
                                                  s.expert_tensor * cut.hidden))
          : 0;
  return cut.number * std::max({dense, experts, cut.per_token(cut.hidden)});
}

Bytes scores_bytes(const Attention& a, const Cut& cut, const Workload& workload,
                   const Strategy& s) {
  return {kFp32 * score_count(attention_shape(a, s), cut, workload)};
}

/// Inputs of the products of an attention and gradients of their outputs. The
/// input of a column-parallel product is gathered again, the gradient of a
/// row-parallel one stays gathered. Source: sail-sg/zero-bubble-pipeline-
/// parallelism, megatron/core/tensor_parallel/layers.py (pre_process).
std::int64_t attention_pending(const Attention& a, const Cut& cut,
                               const Strategy& s) {
  const AttentionShape shape = attention_shape(a, s);
  const std::int64_t keys =
      a.is_latent() ? shape.heads * (a.latent.nope_size + a.latent.value_size)
                    : shape.key + shape.value;
  return cut.per_stream(cut.number * (cut.hidden + shape.latent)) +
         cut.per_token(cut.number *
                       (shape.query + keys + shape.output + cut.hidden));
}

/// Of an MLP over `rows`, whose input has `in` bytes and output `out`.
std::int64_t mlp_pending(const FeedForward& f, std::int64_t rows,
                         std::int64_t width, std::int64_t in, std::int64_t out,
                         const Cut& cut) {
  const std::int64_t into = f.gated ? 2 : 1;
  return in + capped_product(rows, (into + 1) * cut.number * width) + out;
}

std::int64_t ffn_pending(const FeedForward& f, const Cut& cut,
                         const Strategy& s) {
  const std::int64_t width =
      divide_up(f.is_moe() ? f.shared_width : f.width, s.tensor);
  const std::int64_t stream = stream_bytes(cut);
  const std::int64_t dense =
      width == 0 ? stream
                 : mlp_pending(f, cut.tokens, width, stream,
                               cut.per_token(cut.number * cut.hidden), cut);
  if (!f.is_moe()) return dense;
  const std::int64_t rows = expert_rows(f, cut, s);
  const std::int64_t moved =
      capped_product(rows, cut.number * cut.hidden * s.expert_tensor);
  return dense + cut.per_stream(kFp32 * f.experts) +
         mlp_pending(f, rows, f.expert_width, moved, moved, cut);
}

/// What a layer drops by itself; whole-layer recomputation drops nothing here.
Recompute within_layer(const Recompute& recompute) {
  return recompute.mode == Recompute::Mode::selective ? recompute : Recompute{};
}

// Source: torchtitan, components/loss.py (ChunkedLossWrapper).
constexpr std::int64_t kLossChunks = 8;

/// Logits of so many tokens at a time that they take no more than the hidden
/// states, whose gradient is kept. Source: linkedin/Liger-Kernel,
/// src/liger_kernel/ops/fused_linear_cross_entropy.py.
Parts fused_linear_loss(const Cut& cut, std::int64_t vocab) {
  const std::int64_t gradient = cut.per_token(cut.number * cut.hidden);
  const std::int64_t tokens = cut.per_token(1);
  const auto chunk =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(
          divide_up(tokens, divide_up(vocab, cut.hidden)))));
  return {gradient, gradient + cut.number * std::min(tokens, chunk) * vocab};
}

/// What the loss keeps of the logits of `vocab` words, and all of it at its
/// peak.
Parts loss_parts(LossKernel kernel, const Cut& cut, std::int64_t vocab) {
  const std::int64_t number = cut.number;
  const bool is_fp32 = number == kFp32;
  const std::int64_t eager = is_fp32 ? 3 * kFp32 : 2 * (number + kFp32);
  const auto bytes_a_logit = [&](std::int64_t saved, std::int64_t working) {
    const std::int64_t logits = cut.per_token(vocab);
    return Parts{saved * logits, working * logits};
  };
  switch (kernel) {
    case LossKernel::fused:
      return bytes_a_logit(number, number);
    case LossKernel::compiled:
      return bytes_a_logit(number, 2 * number);
    case LossKernel::upcast:
      return bytes_a_logit(2 * kFp32, (is_fp32 ? 4 : 5) * kFp32);
    case LossKernel::vocab_parallel:
      return bytes_a_logit(kFp32, is_fp32 ? kFp32 : number + kFp32);
    case LossKernel::eager:
      return bytes_a_logit(kFp32, eager);
    case LossKernel::uncast:
      return bytes_a_logit(number, 4 * number);
    case LossKernel::chunked:
      return bytes_a_logit(0, divide_up(eager, kLossChunks));
    case LossKernel::fused_linear:
      return fused_linear_loss(cut, vocab);
  }
  return {};
}

/// What torchtitan's op-level recomputation keeps: a layer's input, the output
/// of attention and of every second product (queries, values, first and last
/// of the MLP). Source: torchtitan, distributed/activation_checkpoint.py.
std::int64_t op_saved(const Layer& layer, const Cut& cut,
                      const Workload& workload, const Strategy& s) {
  const AttentionShape shape = attention_shape(layer.attention, s);
  const std::int64_t attention =
      cut.per_token(cut.number * (shape.query + shape.value + shape.output));
  const Parts core =
      cut.eager ? eager_core(shape, cut, workload) : flash_core(shape, cut);
  const std::int64_t first = inner_elements(layer.ffn, cut, s);
  return 2 * stream_bytes(cut) + attention + core.saved +
         capped_product(cut.number, first);
}

}  // namespace

std::int64_t activation_bytes(Precision precision) {
  constexpr std::int64_t kSixteenBits = 2;
  return precision == Precision::fp32 ? kFp32 : kSixteenBits;
}

LayerActivations layer_activations(const ModelSpec& model, const Layer& layer,
                                   const Workload& workload,
                                   const Strategy& strategy) {
  const Cut cut = cut_of(model, workload, strategy);
  const Recompute recompute = within_layer(strategy.recompute);
  const Parts attention =
      attention_parts(layer.attention, cut, workload, strategy, recompute);
  const Parts ffn = ffn_parts(layer.ffn, cut, strategy, recompute);
  const Parts norms = norm_parts(model, layer, cut, recompute);
  const std::int64_t attentions = layer.attention.cross ? 2 : 1;
  LayerActivations bytes;
  bytes.saved = {attentions * attention.saved + ffn.saved + norms.saved};
  bytes.checkpoint = {stream_bytes(cut)};
  std::int64_t rebuilt = 0;
  if (recompute.op) {
    const std::int64_t kept = op_saved(layer, cut, workload, strategy);
    rebuilt = std::max<std::int64_t>(0, bytes.saved.value - kept);
    bytes.saved.value -= rebuilt;
  }
  bytes.working = {rebuilt + stream_working(cut, strategy) + norms.working +
                   std::max(attention.working, ffn.working)};
  bytes.pending = {attentions *
                       attention_pending(layer.attention, cut, strategy) +
                   ffn_pending(layer.ffn, cut, strategy)};
  bytes.attention_scores =
      scores_bytes(layer.attention, cut, workload, strategy);
  bytes.widest = {widest_tensor(layer, cut, strategy)};
  return bytes;
}

Bytes unfused_activations(const ModelSpec& model, const Layer& layer,
                          const Workload& workload, const Strategy& strategy) {
  const Cut cut = cut_of(model, workload, strategy);
  const AttentionShape shape = attention_shape(layer.attention, strategy);
  const std::int64_t norms =
      model.norm == Norm::rms
          ? layer.norms *
                (cut.per_stream(kFp32 * cut.hidden) + stream_bytes(cut))
          : 0;
  const std::int64_t repeated =
      shape.grouped ? cut.per_token(2 * (shape.query - shape.key)) : 0;
  const std::int64_t gate =
      layer.ffn.gated ? inner_elements(layer.ffn, cut, strategy) : 0;
  return {norms + cut.number * (repeated + gate)};
}

EndActivations end_activations(const ModelSpec& model, const Workload& workload,
                               const Strategy& strategy,
                               std::int64_t padded_vocab, LossKernel kernel) {
  require(padded_vocab >= model.vocab, "end_activations: padding adds rows");
  const Cut cut = cut_of(model, workload, strategy);
  const std::int64_t vocab = divide_up(padded_vocab, strategy.tensor);
  const Parts loss = loss_parts(kernel, cut, vocab);
  const std::int64_t ids = model.positions == Positions::learned ? 2 : 1;
  const std::int64_t logits = cut.per_token(vocab);
  EndActivations bytes;
  bytes.embedding = {cut.per_token(ids * kIndex)};
  bytes.embedding.value += mask_bytes(cut);
  if (model.embedding_norm) bytes.embedding.value += stream_bytes(cut);
  // The projection needs whole rows: sequence parallelism gathers its input.
  bytes.head = {stream_bytes(cut) + cut.per_token(cut.number * cut.hidden)};
  bytes.logits = {loss.working};
  bytes.loss_saved = {loss.saved};
  bytes.fp32_logits = {kFp32 * logits};
  bytes.embedding_pending = {bytes.embedding.value + stream_bytes(cut)};
  bytes.head_pending = {stream_bytes(cut) + capped_product(cut.number, logits)};
  return bytes;
}

Bytes boundary_bytes(const ModelSpec& model, const Workload& workload,
                     const Strategy& strategy) {
  return {stream_bytes(cut_of(model, workload, strategy))};
}

}  // namespace ztplan
