// Arguments of pretrain_gpt.py, Megatron-LM core 0.20: the shape of the model,
// the plan, and the environment it needs. Flags: NVIDIA/Megatron-LM megatron/
// training/arguments.py, core/transformer/transformer_config.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "interop/formats.h"
#include "interop/launch.h"
#include "interop/megatron.h"
#include "strategy/ledger.h"
#include "strategy/recomputed.h"
#include "strategy/stages.h"

namespace ztplan {
namespace {

/// One line an argument, in groups as they are read.
class Arguments {
 public:
  template <class Value>
  void set(std::string_view flag, const Value& value) {
    lines_.push_back(fmt::format("--{} {}", flag, value));
  }
  void on(std::string_view flag) {
    lines_.push_back(fmt::format("--{}", flag));
  }
  void on_if(bool wanted, std::string_view flag) {
    if (wanted) on(flag);
  }
  /// A shell array.
  std::string array(std::string_view name) const {
    return fmt::format("{}=(\n  {}\n)\n", name, fmt::join(lines_, "\n  "));
  }

 private:
  std::vector<std::string> lines_;
};

const Layer& widest(const ModelSpec& model) {
  const auto experts = [](const LayerGroup& group) {
    return group.layer.ffn.is_moe();
  };
  const auto found = std::ranges::find_if(model.layers, experts);
  return found == model.layers.end() ? model.layers.front().layer
                                     : found->layer;
}

const FeedForward* dense_ffn(const ModelSpec& model) {
  for (const LayerGroup& group : model.layers)
    if (!group.layer.ffn.is_moe()) return &group.layer.ffn;
  return nullptr;
}

void say_attention(const ModelSpec& model, Arguments& a) {
  const Attention& attention = widest(model).attention;
  a.set("num-attention-heads", attention.heads);
  if (attention.is_latent()) {
    const Latent& latent = attention.latent;
    a.on("multi-latent-attention");
    if (latent.q_rank > 0) a.set("q-lora-rank", latent.q_rank);
    a.set("kv-lora-rank", latent.kv_rank);
    a.set("qk-head-dim", latent.nope_size);
    a.set("qk-pos-emb-head-dim", latent.rope_size);
    a.set("v-head-dim", latent.value_size);
  } else if (attention.kv_heads != attention.heads) {
    a.on("group-query-attention");
    a.set("num-query-groups", attention.kv_heads);
  }
  const bool own_size = !attention.is_latent() &&
                        attention.head_size * attention.heads != model.hidden;
  if (own_size) a.set("kv-channels", attention.head_size);
  a.on_if(attention.qk_norm != QkNorm::none || attention.is_latent(),
          "qk-layernorm");
  a.on_if(attention.qkv_bias && !attention.output_bias, "add-qkv-bias");
  if (attention.window > 0)
    a.set("window-size", fmt::format("{},0", attention.window));
}

/// "([0]*3+[1]*58)": which layers have experts.
std::string moe_pattern(const ModelSpec& model) {
  std::string text;
  for (const LayerGroup& group : model.layers)
    text += fmt::format("{}[{:d}]*{}", text.empty() ? "" : "+",
                        group.layer.ffn.is_moe(), group.count);
  return fmt::format("'({})'", text);
}

void say_experts(const ModelSpec& model, Arguments& a) {
  const FeedForward& f = widest(model).ffn;
  if (!f.is_moe()) return;
  a.set("num-experts", f.experts);
  a.set("moe-router-topk", f.top_k);
  a.set("moe-ffn-hidden-size", f.expert_width);
  if (model.layers.size() > 1 && dense_ffn(model) != nullptr)
    a.set("moe-layer-freq", moe_pattern(model));
  if (f.shared_width > 0)
    a.set("moe-shared-expert-intermediate-size", f.shared_width);
  a.on_if(f.shared_gate && f.shared_width > 0, "moe-shared-expert-gate");
  a.on_if(f.top_k == 1, "moe-router-pre-softmax");
  a.set("moe-token-dispatcher-type", "alltoall");
  a.on("moe-grouped-gemm");
}

void say_model(const Emission& e, Arguments& a) {
  const ModelSpec& model = e.question.model;
  const FeedForward* dense = dense_ffn(model);
  const FeedForward& ffn = widest(model).ffn;
  a.set("num-layers", layer_count(model));
  a.set("hidden-size", model.hidden);
  a.set("ffn-hidden-size", dense != nullptr ? dense->width : ffn.expert_width);
  say_attention(model, a);
  say_experts(model, a);
  a.on_if(ffn.gated, "swiglu");
  a.set("normalization", model.norm == Norm::rms ? "RMSNorm" : "LayerNorm");
  const bool biased = widest(model).attention.output_bias && ffn.bias;
  a.on_if(!biased, "disable-bias-linear");
  a.on_if(!model.tied, "untie-embeddings-and-output-weights");
  a.set("position-embedding-type",
        model.positions == Positions::learned  ? "learned_absolute"
        : model.positions == Positions::rotary ? "rope"
                                               : "none");
  a.set("seq-length", e.question.workload.sequence);
  a.set("max-position-embeddings",
        std::max(model.position_rows, e.question.workload.sequence));
  a.set("make-vocab-size-divisible-by", 128);
}

void say_stages(const Emission& e, Arguments& a) {
  const Strategy& s = e.plan.strategy;
  if (s.pipeline == 1) return;
  a.set("pipeline-model-parallel-size", s.pipeline);
  const int layers = layer_count(e.question.model);
  if (!s.stage_layers.empty()) {
    a.set("pipeline-model-parallel-layout",
          fmt::format("'{}'", pipeline_layout(chunk_layers(layers, s))));
    return;
  }
  if (s.ends_as_layers) {
    a.on("account-for-embedding-in-pipeline-split");
    a.on("account-for-loss-in-pipeline-split");
  }
  if (s.virtual_stages > 1)
    a.set("num-virtual-stages-per-pipeline-rank", s.virtual_stages);
}

void say_grid(const Emission& e, Arguments& a) {
  const Strategy& s = e.plan.strategy;
  a.set("tensor-model-parallel-size", s.tensor);
  a.on_if(s.sequence_parallel, "sequence-parallel");
  say_stages(e, a);
  if (s.context > 1) {
    a.set("context-parallel-size", s.context);
    a.set("cp-comm-type",
          s.context_kind == ContextKind::ulysses ? "a2a" : "p2p");
  }
  if (!widest(e.question.model).ffn.is_moe()) return;
  a.set("expert-model-parallel-size", s.expert);
  a.set("expert-tensor-parallel-size", s.expert_tensor);
}

void say_batch(const Emission& e, Arguments& a) {
  a.set("micro-batch-size", e.plan.strategy.micro_batch);
  a.set("global-batch-size", e.question.workload.global_batch);
}

void say_recompute(const Emission& e, Arguments& a) {
  const Recompute& r = e.plan.strategy.recompute;
  if (r.mode == Recompute::Mode::none) return;
  if (r.mode == Recompute::Mode::selective) {
    std::vector<std::string> modules;
    for (const RecomputedPart& part : kRecomputedParts)
      if (r.*part.flag) modules.emplace_back(part.megatron);
    a.set("recompute-granularity", "selective");
    a.set("recompute-modules", fmt::format("{}", fmt::join(modules, " ")));
    return;
  }
  a.set("recompute-granularity", "full");
  a.set("recompute-method", r.layers > 0 ? "block" : "uniform");
  a.set("recompute-num-layers", std::max(1, r.layers));
}

void say_states(const Emission& e, Arguments& a) {
  const Strategy& s = e.plan.strategy;
  const Workload& w = e.question.workload;
  const bool overlap = overlaps_reduction(*e.plan.engine, s);
  if (s.zero == 1) {
    a.on("use-distributed-optimizer");
    a.on_if(overlap, "overlap-grad-reduce");
    a.on_if(overlap, "overlap-param-gather");
  } else if (s.zero > 1) {
    a.on("use-megatron-fsdp");
    a.set("data-parallel-sharding-strategy",
          s.zero == 2 ? "optim_grads" : "optim_grads_params");
    a.set("ckpt-format", "fsdp_dtensor");
    a.on("overlap-grad-reduce");
    a.on("overlap-param-gather");
  } else {
    a.on_if(overlap, "overlap-grad-reduce");
  }
  if (s.zero > 0 && s.shard_group > 0)
    a.set("num-distributed-optimizer-instances",
          s.data * s.context / s.shard_group);
  if (s.tuning.bucket) a.set("ddp-bucket-size", *s.tuning.bucket);
  if (s.offload.optimizer != OffloadTier::none) {
    a.on("optimizer-cpu-offload");
    a.on("use-precision-aware-optimizer");
    a.on("overlap-cpu-optimizer-d2h-h2d");
  }
  const bool narrow = w.gradient != Precision::fp32 ||
                      s.tuning.communication == Precision::bf16;
  a.on_if(narrow && w.precision != Precision::fp32, "grad-reduce-in-bf16");
  if (w.optimizer != OptimizerKind::adam)
    a.set("optimizer", w.optimizer == OptimizerKind::momentum
                           ? "sgd"
                           : to_text(w.optimizer));
}

void say_numbers(const Emission& e, Arguments& a) {
  const Workload& w = e.question.workload;
  if (w.precision == Precision::fp16) a.on("fp16");
  if (weight_dtype(w.precision) == Precision::bf16) a.on("bf16");
  if (w.precision == Precision::fp8) {
    a.set("fp8-format", "hybrid");
    a.on_if(w.parameter == Precision::fp8, "fp8-param-gather");
  }
  if (w.precision == Precision::fp4) a.set("fp4-format", "e2m1");
  a.set("attention-backend",
        w.attention == AttentionKernel::flash ? "auto" : "unfused");
}

/// What the plan does not decide. The NullTokenizer stands for one of as many
/// words.
void say_choices(const Emission& e, Arguments& a) {
  a.on("mock-data");
  a.set("tokenizer-type", "NullTokenizer");
  a.set("vocab-size", e.question.model.vocab - kNullTokenizerWords);
  a.set("train-iters", "\"${TRAIN_ITERS:-100}\"");
  a.set("lr", "1e-4");
  a.set("clip-grad", "1.0");
}

std::string arguments(const Emission& e) {
  Arguments a;
  say_model(e, a);
  say_grid(e, a);
  say_batch(e, a);
  say_recompute(e, a);
  say_states(e, a);
  say_numbers(e, a);
  Arguments choices;
  say_choices(e, choices);
  return "# Arguments of pretrain_gpt.py; sourced by launch.sh.\n"
         "# shellcheck shell=bash disable=SC2034\n" +
         a.array("ARGS") +
         fmt::format(
             "\n# Yours to choose; the plan does not depend on them: "
             "--data-path for --mock-data, a\n# tokenizer of {} words for "
             "NullTokenizer, and the recipe of your training.\n",
             e.question.model.vocab) +
         choices.array("CHOICES");
}

/// Tensor and context parallelism order their kernels by one hardware queue
/// before Blackwell; Megatron-FSDP needs more. Source: NVIDIA/Megatron-LM
/// megatron/training/arguments.py, CUDA_DEVICE_MAX_CONNECTIONS.
std::vector<std::pair<std::string, std::string>> environment(
    const Emission& e) {
  const Strategy& s = e.plan.strategy;
  const bool is_fsdp = s.zero > 1;
  const bool ordered = s.tensor > 1 || s.context > 1;
  if (is_fsdp || !ordered) return {};
  return {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
}

/// What has no argument, or is no part of its meaning: --qk-layernorm is over a
/// head, --disable-bias-linear of all matrices, --swiglu gates by SiLU.
std::vector<std::string> unsaid_of_layer(const ModelSpec& model) {
  const Attention& a = widest(model).attention;
  const FeedForward& f = widest(model).ffn;
  std::vector<std::string> keys;
  if (a.sinks) keys.emplace_back("model: attention sinks");
  if (a.qk_norm == QkNorm::full)
    keys.emplace_back("model: a norm over all heads of queries and keys");
  if (f.shared_gate && f.shared_width == 0)
    keys.emplace_back("model: a gate of shared experts that have no width");
  if (a.output_bias != f.bias || f.shared_bias)
    keys.emplace_back("model: a bias of attention or MLP alone");
  if (model.head_bias) keys.emplace_back("model: a bias of the head");
  if (f.gated && f.activation != Activation::silu)
    keys.emplace_back("model: a gate other than SiLU");
  return keys;
}

std::vector<std::string> unsaid(const Emission& e) {
  const ModelSpec& model = e.question.model;
  std::vector<std::string> keys = unsaid_of_layer(model);
  if (model.encoder_layers > 0) keys.emplace_back("model: an encoder");
  if (model.embedding_norm) keys.emplace_back("model: a norm of the embedding");
  if (model.positions == Positions::alibi)
    keys.emplace_back("model: ALiBi positions");
  for (const LayerGroup& group : model.layers)
    if (group.layer.norms != 2) {
      keys.push_back(fmt::format("model: {} norms a layer", group.layer.norms));
      break;
    }
  if (e.question.workload.loss)
    keys.push_back(fmt::format("loss={}", to_text(*e.question.workload.loss)));
  return keys;
}

bool recognizes(std::string_view, std::string_view text) {
  for (const char* flag : {"--num-layers", "--tensor-model-parallel-size",
                           "--micro-batch-size", "--use-mcore-models"})
    if (text.find(flag) != std::string_view::npos) return true;
  return false;
}

}  // namespace

Emitted emit_megatron(const Emission& e) {
  const Launch launch{
      .program = "\"$MEGATRON/pretrain_gpt.py\"",
      .arguments = {"\"${ARGS[@]}\"", "\"${CHOICES[@]}\"", "\"$@\""},
      .environment = environment(e),
      .prelude =
          ": \"${MEGATRON:?name the checkout of Megatron-LM}\"\n"
          "# shellcheck source=/dev/null\n. ./args.sh\n",
      .note =
          "Megatron-LM core 0.20 at $MEGATRON; data, tokenizer and learning "
          "rate are yours: CHOICES in args.sh"};
  return with_launch(e, launch, {{"args.sh", arguments(e)}}, unsaid(e));
}

const FileFormat& megatron_format() {
  static constexpr FileFormat kFormat{"megatron", "megatron", recognizes,
                                      read_megatron, emit_megatron};
  return kFormat;
}

}  // namespace ztplan
