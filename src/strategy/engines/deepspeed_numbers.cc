// DeepSpeed's rules of precisions, compression and optimizers.
#include <fmt/format.h>

#include "strategy/engines/deepspeed_rules.h"
#include "strategy/engines/rules.h"

namespace ztplan {
namespace {

bool one_bit_broken(const Setting&, const Strategy& s) {
  return s.tuning.compression == Compression::one_bit && s.zero > 0;
}
constexpr char kOneBit[] =
    "1-bit Adam and LAMB keep whole states: they run without ZeRO";
constexpr char kOneBitNearest[] = "zero 0, or compress=none";

bool one_bit_optimizer_broken(const Setting& g, const Strategy& s) {
  return s.tuning.compression == Compression::one_bit &&
         g.workload.optimizer != OptimizerKind::adam &&
         g.workload.optimizer != OptimizerKind::lamb;
}
constexpr char kOneBitOptimizer[] =
    "compress=onebit is OneBitAdam or OneBitLamb";
constexpr char kOneBitOptimizerNearest[] =
    "optimizer adam or lamb, or compress=none";

bool topk_broken(const Setting&, const Strategy& s) {
  return s.tuning.compression == Compression::topk;
}
constexpr char kTopk[] = "DeepSpeed has no top-k compression of gradients";
constexpr char kTopkNearest[] =
    "compress=onebit with zero 0, or compress=quantized with zero 3";

bool fp8_broken(const Setting& g, const Strategy&) {
  return is_narrow(g.workload.precision);
}
constexpr char kFp8[] = "DeepSpeed's configuration has no fp8 or fp4 training";
constexpr char kFp8Nearest[] = "precision bf16, or engine megatron";

/// bf16 with fp32 accumulation needs stage 1 and its BF16_Optimizer, or a
/// pipeline; stages 2 and 3 accumulate at stage 2 in the model's dtype.
bool gradient_broken(const Setting& g, const Strategy& s) {
  const bool is_wide = g.workload.gradient == Precision::fp32 &&
                       g.workload.precision != Precision::fp32;
  if (!is_wide) return false;
  if (s.zero == 0) return s.pipeline == 1;
  const bool is_fp16 = g.workload.precision == Precision::fp16;
  const bool leaves = s.offload.optimizer != OffloadTier::none;
  if (s.zero == 1) return is_fp16 || leaves;
  return s.zero == 2;
}
Misfit explain_gradient(const Setting& g, const Strategy& s) {
  return because(
      fmt::format("grad_accum_dtype fp32 with {} at zero={} is refused, or "
                  "accepted and not applied",
                  to_text(g.workload.precision), s.zero),
      fmt::format("--grad-dtype {}, or zero 3", to_text(g.workload.precision)));
}

bool lamb_broken(const Setting& g, const Strategy& s) {
  return g.workload.optimizer == OptimizerKind::lamb && s.zero > 0;
}
constexpr char kLamb[] = "LAMB under ZeRO is untested by DeepSpeed and refused";
constexpr char kLambNearest[] =
    "zero 0, or optimizer adam; zero_allow_untested_optimizer overrules it";

bool is_muon(const Setting& g) {
  return g.workload.optimizer == OptimizerKind::muon;
}
bool muon_broken(const Setting& g, const Strategy& s) {
  return is_muon(g) && s.zero == 0;
}
constexpr char kMuon[] = "DeepSpeed's Muon is written for ZeRO 1 to 3";
constexpr char kMuonNearest[] = "zero 1, 2 or 3";

bool muon_whole_broken(const Setting& g, const Strategy& s) {
  return is_muon(g) && s.tuning.compression == Compression::quantized;
}
constexpr char kMuonWhole[] =
    "Muon orthogonalizes whole gradients, which quantized ones do not arrive "
    "as";
constexpr char kMuonWholeNearest[] = "compress=none, or optimizer adam";

bool device_optimizer_broken(const Setting& g, const Strategy& s) {
  return s.offload.optimizer != OffloadTier::none &&
         g.workload.optimizer == OptimizerKind::adam8bit;
}
constexpr char kDeviceOptimizer[] =
    "8-bit Adam is made of CUDA kernels: it does not run where offloaded "
    "states are";
constexpr char kDeviceOptimizerNearest[] =
    "offload=none, or optimizer adam, adagrad or lion";

bool reduced_broken(const Setting&, const Strategy& s) {
  return s.tuning.communication == Precision::fp8;
}
constexpr char kReduced[] = "communication_data_type is fp32, bf16 or fp16";
constexpr char kReducedNearest[] = "comm=bf16, or comm=fp32";

bool stored_broken(const Setting& g, const Strategy&) {
  return stores_otherwise(g.workload) &&
         *g.workload.parameter != Precision::fp32;
}
Misfit explain_stored(const Setting& g, const Strategy&) {
  return because(fmt::format("param_dtype {} is not the precision enabled, {}",
                             to_text(*g.workload.parameter),
                             to_text(g.workload.precision)),
                 fmt::format("--param-dtype {}, or fp32 with torch_autocast",
                             to_text(g.workload.precision)));
}

constexpr char kStates[] =
    "bf16_optimizer_states needs bf16_master_weights_and_grads: beside fp32 "
    "master weights, states are fp32";
constexpr char kStatesNearest[] =
    "--optimizer-dtype fp32, or optimizer adam8bit";

constexpr Rule kRules[] = {
    {"one-bit-without-zero",
     "deepspeedai/DeepSpeed deepspeed/runtime/engine.py: "
     "_configure_basic_optimizer",
     one_bit_broken, told<kOneBit, kOneBitNearest>},
    {"one-bit-optimizer",
     "deepspeedai/DeepSpeed deepspeed/runtime/config.py: DEEPSPEED_OPTIMIZERS",
     one_bit_optimizer_broken, told<kOneBitOptimizer, kOneBitOptimizerNearest>},
    {"no-topk", "deepspeedai/DeepSpeed deepspeed/runtime/config.py",
     topk_broken, told<kTopk, kTopkNearest>},
    {"no-fp8", "deepspeedai/DeepSpeed deepspeed/runtime/precision_config.py",
     fp8_broken, told<kFp8, kFp8Nearest>},
    {"gradient-accumulation-dtype",
     "deepspeedai/DeepSpeed deepspeed/runtime/engine.py: "
     "_do_optimizer_sanity_check; runtime/zero/stage_1_and_2.py",
     gradient_broken, explain_gradient},
    {"lamb-without-zero",
     "deepspeedai/DeepSpeed deepspeed/runtime/zero/utils.py: "
     "ZERO_SUPPORTED_OPTIMIZERS",
     lamb_broken, told<kLamb, kLambNearest>},
    {"muon-needs-zero",
     "deepspeedai/DeepSpeed deepspeed/runtime/engine.py: Muon", muon_broken,
     told<kMuon, kMuonNearest>},
    {"muon-reduces-whole",
     "deepspeedai/DeepSpeed deepspeed/runtime/zero/stage3.py: Muon and all2all "
     "process group cannot be used together",
     muon_whole_broken, told<kMuonWhole, kMuonWholeNearest>},
    {"offloaded-optimizer",
     "bitsandbytes-foundation/bitsandbytes docs/source/optimizers.mdx; "
     "deepspeedai/DeepSpeed deepspeed/runtime/zero/utils.py: "
     "ZERO_SUPPORTED_OPTIMIZERS",
     device_optimizer_broken, told<kDeviceOptimizer, kDeviceOptimizerNearest>},
    {"communication-dtype",
     "deepspeedai/DeepSpeed deepspeed/runtime/config.py: "
     "get_communication_data_type",
     reduced_broken, told<kReduced, kReducedNearest>},
    {"weights-as-computed",
     "deepspeedai/DeepSpeed deepspeed/runtime/config.py: param_dtype equals "
     "the precision enabled",
     stored_broken, explain_stored},
    {"states-fp32",
     "deepspeedai/DeepSpeed deepspeed/runtime/config.py: _do_error_check; pull "
     "request 8010",
     moments_broken, told<kStates, kStatesNearest>},
    kFlashSupported,
};

}  // namespace

std::span<const Rule> deepspeed_number_rules() { return kRules; }

}  // namespace ztplan
