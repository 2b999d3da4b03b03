// Bytes one layer, and each end of the model, keep and need on one device for
// one micro-batch, and a device's share of their parameters. What stages, ZeRO
// and the schedule make of that is the ledger's.
//
// Source of every term: Korthikanti et al., arXiv 2205.05198, table 2, and the
// same accounting for fused kernels, gated MLPs, GQA, MLA and experts.
//
// Conventions
// - LayerNorm models are trained with dropout, RMSNorm models without. Its two
//   masks over hidden count in any case (Megatron-LM's default is 0.1), that
//   over scores when attention is eager: the published GPT tables, 34 + 5 a
//   s/h.
// - Eager attention keeps 16-bit probabilities, their mask and the dropped copy
//   with dropout; else fp32 probabilities and a 16-bit copy (transformers,
//   eager_attention_forward). A sliding window does not shrink them: the window
//   is a mask over full scores.
// - Norms, rotary embedding and activation are fused kernels; what a framework
//   keeps when they are not is `unfused_activations`.
// - fp8 runs keep 16-bit activations, but for inputs of products where a
//   framework keeps those in fp8.
#pragma once

#include "base/units.h"
#include "spec/model.h"
#include "strategy/strategy.h"

namespace ztplan {

/// Of one layer, one micro-batch, one device.
struct LayerActivations {
  Bytes saved;             // from forward to backward, less what is recomputed
  Bytes checkpoint;        // kept when the whole layer is recomputed: its input
  Bytes working;           // above `saved` while its backward runs
  Bytes pending;           // from the gradients of its inputs to its weights'
  Bytes attention_scores;  // one fp32 score tensor when eager, else 0
  Bytes widest;            // its largest other tensor: an MLP or expert input
};

LayerActivations layer_activations(const ModelSpec& model, const Layer& layer,
                                   const Workload& workload,
                                   const Strategy& strategy);

/// Kept beside `saved` when modules are written in plain tensor operations:
/// fp32 input and normalized output of each RMSNorm, the activation before it
/// meets its gate, keys and values repeated for every query head. Source:
/// transformers, models/llama/modeling_llama.py; Llama 3 8B then keeps 28
/// tensors of hidden size a layer (stas00/ml-engineering,
/// training/performance).
Bytes unfused_activations(const ModelSpec& model, const Layer& layer,
                          const Workload& workload, const Strategy& strategy);

/// Of the ends of the model, one micro-batch, one device. Bytes per logit from
/// the loss's forward to its backward, and while it runs: fused 2, 2 (llm.c);
/// vocab_parallel 4, 2 + 4 (Megatron-LM); eager 4, 2 + 4 + 4 + 2 (torch);
/// uncast 2, 8, where no autocast widens them (QwenLM/Qwen under DeepSpeed);
/// chunked an eighth of eager's and nothing kept (torchtitan,
/// components/loss.py: 8 chunks); fused_linear a gradient of the hidden states
/// and one chunk of logits (Liger Kernel).
struct EndActivations {
  Bytes embedding;    // saved by the embedding (ids, dropout mask)
  Bytes head;         // saved before the loss: final norm in and out
  Bytes logits;       // logits, their loss copies and gradients at the peak
  Bytes loss_saved;   // of `logits`, what waits for the backward of the loss
  Bytes fp32_logits;  // one fp32 logits tensor
  Bytes embedding_pending, head_pending;  // as LayerActivations::pending
};

/// Requires padded_vocab >= model.vocab.
EndActivations end_activations(const ModelSpec& model, const Workload& workload,
                               const Strategy& strategy,
                               std::int64_t padded_vocab, LossKernel loss);

/// A stage's input or output: what one pipeline message holds.
Bytes boundary_bytes(const ModelSpec& model, const Workload& workload,
                     const Strategy& strategy);

/// Parameters of one device's share of a layer: cut by tensor, key/value by
/// min(tensor, kv_heads), experts by all ranks that do not hold equal ones
/// (`expert_data`); norms and router whole.
///
/// Trained are all of them; or, where weights are frozen, the adapters beside
/// them: matrices A [rank, inputs] and B [outputs, rank], of which tensor
/// parallelism cuts the side that the layer is cut on.
struct LayerShare {
  std::int64_t dense = 0;    // reduced over data * context
  std::int64_t experts = 0;  // reduced over expert_data
  std::int64_t trained_dense = 0;
  std::int64_t trained_experts = 0;
  std::int64_t persistent = 0;  // of all, whole on every rank under ZeRO 3
  LayerShare& operator+=(const LayerShare& other);
};
LayerShare operator*(std::int64_t count, const LayerShare& share);
LayerShare layer_share(const ModelSpec& model, const Layer& layer,
                       const Workload& workload, const Strategy& strategy);
/// A linear layer with an adapter, in sizes of one device: of one attention of
/// a layer (not of its cross-attention too), and of an MLP `width` wide.
struct Adapted {
  std::int64_t inputs = 0, outputs = 0;
};
std::vector<Adapted> adapted_attention(const ModelSpec& model,
                                       const Attention& attention,
                                       const Adapters& adapters, int tensor);
std::vector<Adapted> adapted_mlp(const ModelSpec& model, std::int64_t width,
                                 bool gated, const Adapters& adapters,
                                 std::int64_t tensor);

/// `parameters` of an end of the model, frozen beside adapters.
LayerShare end_layer_share(const Workload& workload, std::int64_t parameters);

/// Parameters of one device's share of the ends, rows of the vocabulary cut by
/// tensor. Requires padded_vocab >= model.vocab.
struct EndShare {
  std::int64_t embedding = 0;  // table; positions, norm, projections whole
  std::int64_t head = 0;       // output matrix, or its tied copy
  std::int64_t norm = 0;       // final norm and the bias of the head
  std::int64_t persistent_embedding = 0;  // of `embedding`, as in LayerShare
  std::int64_t persistent_norm = 0;
};
EndShare end_share(const ModelSpec& model, const Strategy& strategy,
                   std::int64_t padded_vocab);

/// Bytes of a stored activation: 4 in fp32, else 2.
std::int64_t activation_bytes(Precision precision);

}  // namespace ztplan
