// ztplan's own executor, src/exec: the models, numbers and cuts it has code
// for.
#include <fmt/format.h>

#include <algorithm>

#include "strategy/engine_memory.h"
#include "strategy/engines/engines.h"
#include "strategy/engines/rules.h"
#include "strategy/recomputed.h"
#include "strategy/schedule.h"

namespace ztplan {
namespace {

// Rows of the vocabulary on one rank fill whole tiles of its matmul, 64 wide
// at the least. Source: NVIDIA/cutlass media/docs/efficient_gemm.md.
constexpr int kVocabMultiple = 64;
// As Megatron-LM's, megatron/core/distributed/distributed_data_parallel.py:
// large enough for a ring to reach its bandwidth.
constexpr std::int64_t kBucketElements = 40'000'000;

/// What a layer has that no kernel is there for; null when it has nothing.
const char* foreign_part(const Attention& a) {
  if (a.is_latent()) return "latent attention";
  if (a.qk_norm != QkNorm::none) return "norms of queries and keys";
  if (a.sinks) return "attention sinks";
  if (a.cross) return "attention over an encoder";
  return nullptr;
}
const char* foreign_part(const FeedForward& f) {
  if (f.shared_gate) return "a gate of shared experts";
  if (f.router_bias) return "a bias of the router";
  if (f.is_moe() && f.bias) return "biases of experts";
  return nullptr;
}
const char* foreign_part(const Layer& layer) {
  if (layer.norms != 2) return "layers with other than two norms";
  if (const char* part = foreign_part(layer.attention)) return part;
  return foreign_part(layer.ffn);
}
const char* foreign_part(const ModelSpec& model) {
  const bool has_positions = model.positions == Positions::none ||
                             model.positions == Positions::learned ||
                             model.positions == Positions::rotary;
  if (!has_positions) return "alibi or relative positions";
  if (model.embedding_norm) return "a norm of the embedding";
  if (model.embedding_size > 0) return "a narrow embedding";
  if (model.head_bias) return "a bias of the head";
  if (!model.final_norm) return "no final norm";
  if (model.encoder_layers > 0) return "an encoder";
  for (const LayerGroup& group : model.layers)
    if (const char* part = foreign_part(group.layer)) return part;
  return nullptr;
}

bool model_broken(const Setting& g, const Strategy&) {
  return foreign_part(g.model) != nullptr;
}
Misfit explain_model(const Setting& g, const Strategy&) {
  return because(fmt::format("{} has {}, which the executor has no code for",
                             g.model.name, foreign_part(g.model)),
                 "--engine megatron, deepspeed or fsdp");
}

bool numbers_broken(const Setting& g, const Strategy&) {
  const Workload& w = g.workload;
  return is_narrow(w.precision) || w.gradient != Precision::fp32 ||
         w.moments != Precision::fp32 || w.parameter || w.adapters.any() ||
         w.quantize != Quantize::none || w.optimizer != OptimizerKind::adam ||
         w.loss;
}
constexpr char kNumbers[] =
    "the executor computes in fp32, bf16 or fp16, with fp32 gradients, masters "
    "and moments of AdamW, every weight trained";
constexpr char kNumbersNearest[] =
    "--precision bf16 without --optimizer, dtypes, --loss, --lora and "
    "--quantize";

bool tuning_broken(const Setting&, const Strategy& s) {
  const Tuning& t = s.tuning;
  const bool is_foreign = t.compression == Compression::one_bit ||
                          t.compression == Compression::quantized;
  return is_foreign || t.communication || t.bucket || t.prefetch || t.live ||
         t.persistent || t.persistent_total || t.secondary > 0 ||
         t.quantized_weights;
}
constexpr char kTuning[] =
    "the executor reduces fp32 gradients unit by unit, whole or the largest of "
    "them, and gathers one unit ahead";
constexpr char kTuningNearest[] = "overlap, load and compress=topk alone";

/// What was not sent yet is of whole gradients in one scale, and tensor ranks
/// would choose each their own of what they hold alike.
bool topk_broken(const Setting& g, const Strategy& s) {
  return s.tuning.compression == Compression::topk &&
         (s.zero > 0 || s.tensor > 1 ||
          g.workload.precision == Precision::fp16);
}
constexpr char kTopk[] =
    "the executor sends the largest gradients of whole ones, under no loss "
    "scale, and tensor ranks would each choose others";
constexpr char kTopkNearest[] = "zero=0 and tp=1 in bf16 or fp32";

bool recompute_broken(const Setting&, const Strategy& s) {
  return s.recompute.op || names_modules(s.recompute);
}
constexpr char kRecompute[] =
    "the executor recomputes attention, norms and activation, or whole layers: "
    "neither torchtitan's operations (op) nor Megatron-LM's modules "
    "(mla_up_proj, mlp, moe, shared_experts)";
constexpr char kRecomputeNearest[] =
    "any of attention, norms, activation; or full";

/// What weights that come later need is kept, not made again, and a stage has
/// the gradients of one chunk's weights whole from its first pass on.
bool schedule_broken(const Setting&, const Strategy& s) {
  const bool drops_inputs =
      recomputes_layers(s) || (s.recompute.mode == Recompute::Mode::selective &&
                               (s.recompute.norms || s.recompute.activation));
  const int chunks = s.schedule == Schedule::zb_v ? 2 : 1;
  return splits_backward(s.schedule) &&
         (s.virtual_stages != chunks || s.schedule == Schedule::dualpipe_v ||
          s.zero >= 2 || drops_inputs);
}
constexpr char kSplitBackward[] =
    "the executor splits the backward of one chunk a stage, or of the two of "
    "zb-v, under ZeRO 1 at most, that keep the inputs of their products";
constexpr char kSplitBackwardNearest[] =
    "schedule=1f1b, gpipe or interleaved; zb-h1, zb-h2 or zb-v, with zero=1 "
    "and recompute=none or selective:attention";

/// Key/value heads of one rank, of tensor and, under Ulysses, of context.
int head_parts(const Strategy& s) {
  const bool trades = s.context > 1 && s.context_kind == ContextKind::ulysses;
  return trades ? s.tensor * s.context : s.tensor;
}
bool key_heads_broken(const Setting& g, const Strategy& s) {
  return std::ranges::any_of(g.model.layers, [&](const LayerGroup& group) {
    return group.layer.attention.kv_heads % head_parts(s) != 0;
  });
}
Misfit explain_key_heads(const Setting& g, const Strategy& s) {
  const int heads = g.model.layers.front().layer.attention.kv_heads;
  return because(
      fmt::format("key/value heads {} are not a multiple of {}, and the "
                  "executor holds none twice",
                  heads, head_parts(s)),
      fmt::format("tp (times cp under ulysses) that divides {}", heads));
}

bool experts_broken(const Setting& g, const Strategy& s) {
  const bool has_experts = std::ranges::any_of(
      g.model.layers,
      [](const LayerGroup& group) { return group.layer.ffn.is_moe(); });
  return has_experts && s.tensor > 1 && !s.sequence_parallel;
}
constexpr char kExperts[] =
    "tensor ranks route a part of the sequence each, which sp=0 does not cut";
constexpr char kExpertsNearest[] = "sp=1, or tp 1";

/// Weights that leave are stepped where they are.
bool offload_broken(const Setting&, const Strategy& s) {
  const Offload& o = s.offload;
  return o.parameters != OffloadTier::none &&
         (o.optimizer == OffloadTier::none ||
          (o.parameters == OffloadTier::nvme &&
           o.optimizer != OffloadTier::nvme));
}
constexpr char kOffload[] =
    "weights leave the device after the optimizer does, and no further";
constexpr char kOffloadNearest[] =
    "offload=cpu+parameters, nvme+parameters or nvme+parameters:cpu";

constexpr const char* kSource = "ztplan, src/exec";
constexpr Rule kRules[] = {
    {"executed-model", kSource, model_broken, explain_model},
    {"executed-numbers", kSource, numbers_broken,
     told<kNumbers, kNumbersNearest>},
    {"executed-tuning", kSource, tuning_broken, told<kTuning, kTuningNearest>},
    {"executed-topk", kSource, topk_broken, told<kTopk, kTopkNearest>},
    {"executed-recompute", kSource, recompute_broken,
     told<kRecompute, kRecomputeNearest>},
    {"executed-offload", kSource, offload_broken,
     told<kOffload, kOffloadNearest>},
    {"executed-schedule", kSource, schedule_broken,
     told<kSplitBackward, kSplitBackwardNearest>},
    {"executed-key-heads", kSource, key_heads_broken, explain_key_heads},
    {"executed-expert-tensor", kSource, expert_tensor_broken,
     told<kExpertTensor, kExpertTensorNearest>},
    {"executed-experts", kSource, experts_broken,
     told<kExperts, kExpertsNearest>},
};

constexpr EngineMemory kMemory = {.loss = LossKernel::fused,
                                  .host_gradient_bytes = 0,
                                  .source = "ztplan, src/exec"};

constexpr Engine kEngine = {
    "native",        "ztplan 0.1", kRules, kVocabMultiple,
    kBucketElements, &kMemory,     true};

}  // namespace

const Engine& native_engine() { return kEngine; }

}  // namespace ztplan
