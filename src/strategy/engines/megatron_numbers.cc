// Megatron-LM's rules of precisions, kernels, compression and optimizers.
#include <fmt/format.h>

#include "strategy/engines/megatron_rules.h"
#include "strategy/engines/rules.h"

namespace ztplan {
namespace {

bool experts_fp16_broken(const Setting& g, const Strategy& s) {
  return s.expert > 1 && g.workload.precision == Precision::fp16;
}

Misfit explain_experts_fp16(const Setting&, const Strategy& s) {
  return because(fmt::format("ep {} does not run in fp16", s.expert),
                 "precision bf16, or ep 1");
}

bool frozen_broken(const Setting& g, const Strategy&) {
  return g.workload.adapters.any() || g.workload.quantize != Quantize::none;
}
constexpr char kFrozen[] =
    "Megatron-LM trains every weight: it has no adapters and no quantized "
    "weights";
constexpr char kFrozenNearest[] = "engine fsdp or deepspeed, or no --lora";

bool optimizer_broken(const Setting& g, const Strategy&) {
  switch (g.workload.optimizer) {
    case OptimizerKind::adam:
    case OptimizerKind::sgd:
    case OptimizerKind::momentum:
    case OptimizerKind::muon:
    case OptimizerKind::lion:
      return false;
    default:
      return true;
  }
}
Misfit explain_optimizer(const Setting& g, const Strategy&) {
  return because(fmt::format("Megatron-LM has no optimizer {}",
                             to_text(g.workload.optimizer)),
                 "optimizer adam, sgd, momentum, muon or lion");
}

bool compression_broken(const Setting&, const Strategy& s) {
  const Tuning& t = s.tuning;
  return t.compression != Compression::none || t.quantized_weights ||
         t.secondary > 0 || t.prefetch || t.live || t.persistent ||
         t.persistent_total;
}
constexpr char kCompression[] =
    "Megatron-LM reduces gradients and gathers weights as they are, by modules "
    "of its own choice: it has no compression, qw, hpz, prefetch, live or "
    "persist";
constexpr char kCompressionNearest[] =
    "none of them; --grad-dtype bf16 halves what is reduced";

bool sdpa_broken(const Setting& g, const Strategy&) {
  return g.workload.attention == AttentionKernel::sdpa;
}
constexpr char kSdpa[] =
    "Megatron-LM calls FlashAttention, cuDNN or plain operations, not "
    "PyTorch's memory-efficient attention";
constexpr char kSdpaNearest[] = "attention flash or eager";

constexpr int kGradientSharding = 2;  // the ZeRO stage that shards gradients

bool sharded_optimizer_broken(const Setting& g, const Strategy& s) {
  if (s.zero < kGradientSharding) return false;
  const OptimizerKind kind = g.workload.optimizer;
  return kind == OptimizerKind::muon || kind == OptimizerKind::lion;
}
Misfit explain_sharded_optimizer(const Setting& g, const Strategy& s) {
  return because(
      fmt::format("Megatron-FSDP (zero={}) steps Adam and SGD, not {}", s.zero,
                  to_text(g.workload.optimizer)),
      "zero 0 or 1, or optimizer adam or sgd");
}

bool offloaded_optimizer_broken(const Setting& g, const Strategy& s) {
  return s.offload.optimizer != OffloadTier::none &&
         g.workload.optimizer != OptimizerKind::adam;
}
Misfit explain_offloaded_optimizer(const Setting& g, const Strategy&) {
  return because(
      fmt::format("--optimizer-cpu-offload needs the precision-aware "
                  "optimizer, which is Adam and not {}",
                  to_text(g.workload.optimizer)),
      "offload=none, or optimizer adam");
}

// Megatron-FSDP alone reduces in a dtype of its own.
bool reduced_broken(const Setting& g, const Strategy& s) {
  const auto dtype = s.tuning.communication;
  if (!dtype || *dtype == g.workload.gradient) return false;
  return s.zero < kGradientSharding ||
         (*dtype != Precision::fp32 &&
          *dtype != weight_dtype(g.workload.precision));
}
Misfit explain_reduced(const Setting& g, const Strategy& s) {
  return because(
      fmt::format("gradients are reduced in the buffer they add up in, which "
                  "is {}, not {}",
                  to_text(g.workload.gradient),
                  to_text(*s.tuning.communication)),
      fmt::format("comm={}, or --grad-dtype {}", to_text(g.workload.gradient),
                  to_text(weight_dtype(g.workload.precision))));
}

bool delayed_broken(const Setting& g, const Strategy& s) {
  return g.workload.precision == Precision::fp8 &&
         s.recompute.mode == Recompute::Mode::selective &&
         (s.recompute.norms || s.recompute.activation);
}
constexpr char kDelayed[] =
    "fp8 with delayed scaling, the default recipe, recomputes neither norms "
    "nor the activation of experts";
constexpr char kDelayedNearest[] =
    "recompute=selective, or recompute=full, or recompute=none";

bool stored_broken(const Setting& g, const Strategy& s) {
  if (!stores_otherwise(g.workload)) return false;
  const bool gathers_fp8 = *g.workload.parameter == Precision::fp8 &&
                           g.workload.precision == Precision::fp8;
  return !gathers_fp8 || s.zero == 0;
}
Misfit explain_stored(const Setting& g, const Strategy& s) {
  return because(
      fmt::format("{} weights under {} and zero={}: Megatron-LM keeps them in "
                  "the dtype of training, or in fp8 with --fp8-param-gather",
                  to_text(*g.workload.parameter), to_text(g.workload.precision),
                  s.zero),
      g.workload.precision == Precision::fp8
          ? "zero 1 with --param-dtype fp8, or --param-dtype bf16"
          : fmt::format("--param-dtype {}", to_text(g.workload.precision)));
}

bool offloaded_fp8_broken(const Setting& g, const Strategy& s) {
  return s.offload.optimizer != OffloadTier::none &&
         g.workload.parameter == Precision::fp8;
}
constexpr char kOffloadedFp8[] =
    "the optimizer on the host finds no parameters where weights are fp8: it "
    "crashes as it is built";
constexpr char kOffloadedFp8Nearest[] = "offload=none, or --param-dtype bf16";

bool states_broken(const Setting& g, const Strategy& s) {
  return moments_broken(g, s) &&
         (s.zero == 0 || g.workload.optimizer != OptimizerKind::adam);
}
Misfit explain_states(const Setting& g, const Strategy&) {
  return because(
      fmt::format("states in {} need the precision-aware optimizer: Adam, and "
                  "the distributed one",
                  to_text(g.workload.moments)),
      g.workload.optimizer == OptimizerKind::adam
          ? "zero 1, or --optimizer-dtype fp32"
          : "--optimizer-dtype fp32, or optimizer adam and zero 1");
}

constexpr Rule kRules[] = {
    {"experts-not-fp16", "NVIDIA/Megatron-LM megatron/training/arguments.py",
     experts_fp16_broken, explain_experts_fp16},
    {"no-frozen-weights",
     "NVIDIA/Megatron-LM megatron/training/arguments.py: no such argument",
     frozen_broken, told<kFrozen, kFrozenNearest>},
    {"optimizer-known",
     "NVIDIA/Megatron-LM megatron/training/arguments.py: --optimizer",
     optimizer_broken, explain_optimizer},
    {"sharded-optimizer",
     "NVIDIA/Megatron-LM megatron/training/arguments.py: use_megatron_fsdp "
     "with optimizer adam or sgd",
     sharded_optimizer_broken, explain_sharded_optimizer},
    {"offloaded-optimizer",
     "NVIDIA/Megatron-LM megatron/core/optimizer/optimizer_config.py: "
     "use_precision_aware_optimizer, optimizer_cpu_offload",
     offloaded_optimizer_broken, explain_offloaded_optimizer},
    {"no-compression",
     "NVIDIA/Megatron-LM megatron/core/distributed/"
     "distributed_data_parallel_config.py",
     compression_broken, told<kCompression, kCompressionNearest>},
    {"communication-dtype",
     "NVIDIA/Megatron-LM megatron/training/arguments.py: grad_reduce_in_bf16, "
     "accumulate_allreduce_grads_in_fp32",
     reduced_broken, explain_reduced},
    {"no-recompute-under-delayed-fp8",
     "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py: "
     "Delayed scaling does not support moe_act and layernorm recompute",
     delayed_broken, told<kDelayed, kDelayedNearest>},
    {"weights-as-computed",
     "NVIDIA/Megatron-LM megatron/training/arguments.py: fp8_param_gather "
     "with the distributed optimizer or FSDP",
     stored_broken, explain_stored},
    {"offload-without-fp8-weights", "NVIDIA/Megatron-LM issue 5083",
     offloaded_fp8_broken, told<kOffloadedFp8, kOffloadedFp8Nearest>},
    {"states-precision-aware",
     "NVIDIA/Megatron-LM megatron/core/optimizer/optimizer_config.py: "
     "exp_avg_dtype, exp_avg_sq_dtype",
     states_broken, explain_states},
    {"attention-known",
     "NVIDIA/Megatron-LM megatron/core/transformer/enums.py: AttnBackend",
     sdpa_broken, told<kSdpa, kSdpaNearest>},
    kFp8Shapes,
    kFlashSupported,
};

}  // namespace

std::span<const Rule> megatron_number_rules() { return kRules; }

}  // namespace ztplan
