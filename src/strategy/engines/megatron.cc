// Megatron-LM, core 0.20. ZeRO 0 is its DDP, 1 its distributed optimizer, 2
// and 3 are Megatron-FSDP (optim_grads, optim_grads_params). A shard group is
// one of --num-distributed-optimizer-instances; Ulysses is --cp-comm-type a2a;
// etp is --expert-tensor-parallel-size.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "strategy/engine_memory.h"
#include "strategy/engines/engines.h"
#include "strategy/engines/megatron_rules.h"
#include "strategy/engines/rules.h"
#include "strategy/recomputed.h"

namespace ztplan {
namespace {

constexpr int kGradientSharding = 2;  // the ZeRO stage that shards gradients

bool gpipe_broken(const Setting&, const Strategy& s) {
  return s.schedule == Schedule::gpipe;
}

Misfit explain_gpipe(const Setting&, const Strategy&) {
  return because("Megatron-LM runs 1F1B and interleaved 1F1B, not GPipe",
                 "schedule=1f1b");
}

bool whole_backward_broken(const Setting& g, const Strategy& s) {
  const bool is_forks =
      s.schedule != Schedule::dualpipe_v &&
      (s.schedule != Schedule::zb_h1 || s.virtual_stages == 1);
  return split_backward_broken(g, s) &&
         !(is_forks && g.workload.framework.splits_backward);
}
constexpr char kWholeBackward[] =
    "Megatron-LM runs 1F1B and interleaved 1F1B with whole backwards; zb-h1 "
    "and zb-h2 with one chunk a stage, and zb-v, are its fork's";
constexpr char kWholeBackwardNearest[] =
    "schedule=1f1b, or interleaved with vpp; --engine-version "
    "megatron-zero-bubble, or --engine fsdp";

bool fsdp_pipeline_broken(const Setting&, const Strategy& s) {
  return s.zero >= kGradientSharding && s.pipeline > 1;
}

Misfit explain_fsdp_pipeline(const Setting&, const Strategy& s) {
  return because(
      fmt::format("zero={} is Megatron-FSDP, whose device mesh has no "
                  "pipeline: pp is {}",
                  s.zero, s.pipeline),
      fmt::format("zero 1 with pp {}, or zero {} with pp 1", s.pipeline,
                  s.zero));
}

bool offload_broken(const Setting&, const Strategy& s) {
  return s.offload.parameters != OffloadTier::none ||
         s.offload.optimizer == OffloadTier::nvme;
}

Misfit explain_offload(const Setting&, const Strategy& s) {
  return because(fmt::format("offload={}: Megatron-LM moves optimizer states "
                             "to the CPU and nothing else",
                             to_text(s.offload)),
                 "offload=cpu");
}

bool offload_whole_broken(const Setting&, const Strategy& s) {
  return s.offload.optimizer != OffloadTier::none && s.zero == 0;
}

Misfit explain_offload_whole(const Setting&, const Strategy&) {
  return because(
      "--optimizer-cpu-offload needs the precision-aware optimizer, "
      "and that the distributed one",
      "zero 1");
}

bool experts_tensor_broken(const Setting& g, const Strategy& s) {
  return s.tensor > 1 && !s.sequence_parallel && has_experts(g.model);
}

Misfit explain_experts_tensor(const Setting& g, const Strategy& s) {
  return because(
      fmt::format("{} has experts: with tp {} it needs sequence parallelism",
                  g.model.name, s.tensor),
      "sp=1, or tp 1");
}

bool expert_bias_broken(const Setting& g, const Strategy& s) {
  return s.expert_tensor > 1 && any_layer(g.model, [](const Layer& layer) {
           return layer.ffn.is_moe() && layer.ffn.bias;
         });
}
constexpr char kExpertBias[] = "experts with biases are not cut by tensor";

int instances(const Strategy& s) { return s.data * s.context / zero_group(s); }

bool instances_broken(const Setting&, const Strategy& s) {
  return s.expert > 1 && s.shard_group > 0 &&
         expert_data(s) % instances(s) != 0;
}

// Shard groups that also divide the ranks, as the common rule asks.
bool shard_broken(const Setting& g, const Strategy& s) {
  return s.data * s.context % s.shard_group != 0 || instances_broken(g, s);
}

Misfit explain_instances(const Setting& g, const Strategy& s) {
  return because(
      fmt::format("shard {} makes {} optimizer instances, which do not divide "
                  "the {} ranks with equal experts",
                  s.shard_group, instances(s), expert_data(s)),
      nearest_sizes({"shard", &Strategy::shard_group}, s.data * s.context,
                    shard_broken, g, s));
}

constexpr int kChunksOfContextRank = 2;

bool context_broken(const Setting& g, const Strategy& s) {
  return s.context > 1 &&
         g.workload.sequence %
                 (std::int64_t{kChunksOfContextRank} * s.context) !=
             0;
}

Misfit explain_context(const Setting& g, const Strategy& s) {
  const std::int64_t unit = std::int64_t{kChunksOfContextRank} * s.context;
  return because(
      fmt::format("sequence {} is not a multiple of 2*cp = {}",
                  g.workload.sequence, unit),
      either("sequence " + nearest_multiples(g.workload.sequence, unit),
             nearest_sizes({"cp", &Strategy::context}, g.cluster.devices,
                           context_broken, g, s)));
}

bool context_eager_broken(const Setting& g, const Strategy& s) {
  return s.context > 1 && g.workload.attention == AttentionKernel::eager;
}

Misfit explain_context_eager(const Setting&, const Strategy& s) {
  return because(fmt::format("cp {} runs on fused attention only", s.context),
                 "attention flash, or cp 1");
}

bool is_ring(const Strategy& s) {
  return s.context > 1 && s.context_kind == ContextKind::ring;
}

bool window_broken(const Setting& g, const Strategy& s) {
  return is_ring(s) && any_layer(g.model, [&](const Layer& layer) {
           return layer.attention.window > 0 &&
                  layer.attention.window < g.workload.sequence;
         });
}

Misfit explain_window(const Setting& g, const Strategy& s) {
  return because(fmt::format("{} has sliding windows, which a ring over cp {} "
                             "does not cut",
                             g.model.name, s.context),
                 "cp_type=ulysses, or cp 1");
}

int local_kv_heads(const Attention& attention, const Strategy& s) {
  return std::max(1, key_value_heads(attention) / s.tensor);
}

bool ulysses_broken(const Setting& g, const Strategy& s) {
  if (s.context == 1 || s.context_kind != ContextKind::ulysses) return false;
  return any_layer(g.model, [&](const Layer& layer) {
    return local_kv_heads(layer.attention, s) % s.context != 0;
  });
}

Misfit explain_ulysses(const Setting& g, const Strategy& s) {
  const Layer* layer = find_layer(g.model, [&](const Layer& each) {
    return local_kv_heads(each.attention, s) % s.context != 0;
  });
  const int heads = local_kv_heads(layer->attention, s);
  return because(
      fmt::format("{} key/value heads are not a multiple of cp {}: Transformer "
                  "Engine scatters them whole",
                  heads, s.context),
      fmt::format(
          "cp {}; cp_type=ring has no limit of heads",
          legal_sizes(&Strategy::context, heads, ulysses_broken, g, s)));
}

bool activation_broken(const Setting& g, const Strategy& s) {
  return s.recompute.activation && !has_experts(g.model);
}

Misfit explain_activation(const Setting& g, const Strategy&) {
  return because(
      fmt::format("recompute=selective:activation is --recompute-modules "
                  "moe_act, and {} has no experts",
                  g.model.name),
      "recompute=selective:attention+norms, or full");
}

/// A module that not every model has.
struct Module {
  bool Recompute::*flag;
  const char* text;
  const char* what;
  bool (*is_in)(const Layer&);
};
constexpr Module kModules[] = {
    {&Recompute::mla_up_proj, "mla_up_proj", "latent attention",
     [](const Layer& layer) { return layer.attention.is_latent(); }},
    {&Recompute::mlp, "mlp", "MLP outside of experts",
     [](const Layer& layer) { return !layer.ffn.is_moe(); }},
    {&Recompute::moe, "moe", "experts",
     [](const Layer& layer) { return layer.ffn.is_moe(); }},
    {&Recompute::shared_experts, "shared_experts", "shared experts",
     [](const Layer& layer) {
       return layer.ffn.is_moe() && layer.ffn.shared_width > 0;
     }},
};

bool is_absent(const Module& module, const Setting& g, const Recompute& r) {
  return r.*module.flag && !any_layer(g.model, module.is_in);
}

bool module_broken(const Setting& g, const Strategy& s) {
  return std::ranges::any_of(kModules, [&](const Module& module) {
    return is_absent(module, g, s.recompute);
  });
}

Misfit explain_module(const Setting& g, const Strategy& s) {
  std::vector<std::string> absent;
  Recompute left = s.recompute;
  for (const Module& module : kModules) {
    if (!is_absent(module, g, s.recompute)) continue;
    absent.push_back(
        fmt::format("{} is of models with {}", module.text, module.what));
    left.*module.flag = false;
  }
  if (!names_parts(left)) left = {};
  return because(
      fmt::format("recompute={}: {}, which {} has not", to_text(s.recompute),
                  fmt::join(absent, " and "), g.model.name),
      fmt::format("recompute={}, or full", to_text(left)));
}

bool op_broken(const Setting&, const Strategy& s) { return s.recompute.op; }
constexpr char kOp[] =
    "recompute=selective:op is torchtitan's; Megatron-LM recomputes modules";
constexpr char kOpNearest[] =
    "recompute=selective, selective:attention+norms or full";

constexpr Rule kRules[] = {
    {"no-gpipe",
     "NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py: "
     "get_forward_backward_func",
     gpipe_broken, explain_gpipe},
    {"whole-backward",
     "NVIDIA/Megatron-LM issue 1399; "
     "megatron/core/pipeline_parallel/schedules.py",
     whole_backward_broken, told<kWholeBackward, kWholeBackwardNearest>},
    {"fsdp-without-pipeline",
     "NVIDIA/Megatron-LM megatron/core/distributed/fsdp/mcore_fsdp_adapter.py: "
     "_get_dp_tp_mesh lays all ranks out as dp_cp, ep, tp (core 0.16.1)",
     fsdp_pipeline_broken, explain_fsdp_pipeline},
    {"offload-optimizer-to-cpu-only",
     "NVIDIA/Megatron-LM megatron/core/optimizer/optimizer_config.py: "
     "optimizer_cpu_offload",
     offload_broken, explain_offload},
    {"offload-needs-distributed-optimizer",
     "NVIDIA/Megatron-LM megatron/core/optimizer/optimizer_config.py: "
     "use_precision_aware_optimizer",
     offload_whole_broken, explain_offload_whole},
    {"context-needs-flash",
     "NVIDIA/Megatron-LM megatron/core/transformer/dot_product_attention.py",
     context_eager_broken, explain_context_eager},
    {"context-doubles",
     "NVIDIA/Megatron-LM megatron/training/arguments.py: seq_length % "
     "(context_parallel_size * 2)",
     context_broken, explain_context},
    {"experts-tensor-needs-sequence-parallel",
     "NVIDIA/Megatron-LM megatron/core/transformer/moe/moe_layer.py",
     experts_tensor_broken, explain_experts_tensor},
    {"expert-bias-whole",
     "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py: "
     "bias in MoE needs expert tensor parallel size 1",
     expert_bias_broken, told<kExpertBias, kExpertTensorNearest>},
    {"instances-divide-experts",
     "NVIDIA/Megatron-LM megatron/core/parallel_state.py: expert data "
     "parallel size % num_distributed_optimizer_instances",
     instances_broken, explain_instances},
    {"activation-is-of-experts",
     "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py: "
     "recompute_modules",
     activation_broken, explain_activation},
    {"modules-in-model",
     "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py: "
     "mla_up_proj only with multi_latent_attention; transformer_layer.py and "
     "moe/moe_layer.py: the others do nothing",
     module_broken, explain_module},
    {"window-not-in-ring",
     "NVIDIA/TransformerEngine transformer_engine/pytorch/attention/"
     "dot_product_attention/context_parallel.py: sliding window",
     window_broken, explain_window},
    {"ulysses-kv-heads",
     "NVIDIA/TransformerEngine transformer_engine/pytorch/attention/"
     "dot_product_attention/context_parallel.py: heads divisible by CP size",
     ulysses_broken, explain_ulysses},
    {"recompute-modules",
     "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py: "
     "recompute_modules",
     op_broken, told<kOp, kOpNearest>},
};

// --make-vocab-size-divisible-by, megatron/training/arguments.py.
constexpr int kVocabMultiple = 128;
// The least --ddp-bucket-size with --overlap-grad-reduce,
// megatron/core/distributed/distributed_data_parallel.py.
constexpr std::int64_t kBucketElements = 40'000'000;

// Gradients accumulate and are reduced in one buffer. The optimizer on the
// host keeps an fp32 copy of weights and of gradients.
constexpr EngineMemory kMemory = {
    .loss = LossKernel::vocab_parallel,
    .source =
        "Megatron-LM: core/distributed/param_and_grad_buffer.py, "
        "core/optimizer/cpu_offloading"};

}  // namespace

const Engine& megatron_engine() {
  static const RuleList rules = {kRules, megatron_number_rules()};
  static const Engine engine = {"megatron",     "core 0.20",     rules.all(),
                                kVocabMultiple, kBucketElements, &kMemory};
  return engine;
}

}  // namespace ztplan
