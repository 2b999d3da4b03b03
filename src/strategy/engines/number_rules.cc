// Rules of number formats: what a device multiplies, what gradients add up in.
#include <fmt/format.h>

#include "strategy/engines/rules.h"

namespace ztplan {
namespace {

constexpr Precision kAll[] = {Precision::bf16, Precision::fp16, Precision::fp8,
                              Precision::fp4, Precision::fp32};

FlopsPerSecond rate(const DeviceSpec& device, Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return device.fp32;
    case Precision::fp16:
      return device.fp16;
    case Precision::bf16:
      return device.bf16;
    case Precision::fp8:
      return device.fp8;
    case Precision::fp4:
      return device.fp4;
  }
  return {};
}

bool has(const DeviceSpec& device, Precision precision) {
  return rate(device, precision).value > 0;
}

bool precision_broken(const Setting& g, const Strategy&) {
  return !has(g.cluster.device, g.workload.precision);
}

Misfit explain_precision(const Setting& g, const Strategy&) {
  const DeviceSpec& device = g.cluster.device;
  std::string nearest;
  for (const Precision precision : kAll) {
    if (!has(device, precision)) continue;
    nearest += nearest.empty() ? "precision " : ", ";
    nearest += to_text(precision);
  }
  return because(
      fmt::format("{} ({}) has no {} arithmetic", device.name,
                  device.architecture, to_text(g.workload.precision)),
      nearest);
}

// Gradients leave a matmul in the dtype of the weights.
bool gradient_broken(const Setting& g, const Strategy&) {
  return g.workload.gradient != Precision::fp32 &&
         g.workload.gradient != weight_dtype(g.workload.precision);
}

Misfit explain_gradient(const Setting& g, const Strategy&) {
  const Precision own = weight_dtype(g.workload.precision);
  return because(
      fmt::format("gradients of {} training do not add up in {}",
                  to_text(g.workload.precision), to_text(g.workload.gradient)),
      own == Precision::fp32
          ? "gradients in fp32"
          : fmt::format("gradients in {} or fp32", to_text(own)));
}

constexpr Rule kRules[] = {
    {"precision-supported",
     "NVIDIA CUDA C++ Programming Guide, arithmetic by compute capability: "
     "bf16 from 8.0, fp8 from 8.9",
     precision_broken, explain_precision},
    {"gradient-precision",
     "NVIDIA/Megatron-LM megatron/training/arguments.py: "
     "accumulate_allreduce_grads_in_fp32, grad_reduce_in_bf16",
     gradient_broken, explain_gradient},
};

}  // namespace

std::span<const Rule> number_rules() { return kRules; }

}  // namespace ztplan
