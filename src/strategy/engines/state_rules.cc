// Rules of the batch, of ZeRO's groups and of what may leave the device.
#include <fmt/format.h>

#include "strategy/engines/rules.h"

namespace ztplan {
namespace {

constexpr Size kData = {"dp", &Strategy::data};

std::int64_t batch_unit(const Strategy& s) {
  return std::int64_t{s.data} * s.micro_batch;
}

bool batch_broken(const Setting& g, const Strategy& s) {
  return g.workload.global_batch < 1 ||
         g.workload.global_batch % batch_unit(s) != 0;
}

// "global batch 252 (accumulation 18) or 266 (accumulation 19)"
std::string nearest_batches(std::int64_t batch, std::int64_t unit) {
  const std::int64_t steps = std::max<std::int64_t>(batch, 0) / unit;
  const std::string above =
      fmt::format("{} (accumulation {})", (steps + 1) * unit, steps + 1);
  if (steps == 0) return "global batch " + above;
  return fmt::format("global batch {} (accumulation {}) or {}", steps * unit,
                     steps, above);
}

Misfit explain_batch(const Setting& g, const Strategy& s) {
  const std::int64_t unit = batch_unit(s);
  return because(
      fmt::format("global batch {} is not a multiple of dp*micro = {}*{} = {}",
                  g.workload.global_batch, s.data, s.micro_batch, unit),
      either(nearest_batches(g.workload.global_batch, unit),
             nearest_sizes(kData, g.cluster.devices, batch_broken, g, s)));
}

bool shard_unused(const Setting&, const Strategy& s) {
  return s.zero == 0 && s.shard_group > 0;
}

Misfit explain_shard_unused(const Setting&, const Strategy& s) {
  return because(
      fmt::format("shard={} shares model states, and zero=0 keeps them whole",
                  s.shard_group),
      "zero 1, 2 or 3, or no shard");
}

bool shard_broken(const Setting&, const Strategy& s) {
  return s.shard_group > 0 &&
         std::int64_t{s.data} * s.context % s.shard_group != 0;
}

constexpr Size kShard = {"shard", &Strategy::shard_group};

Misfit explain_shard(const Setting& g, const Strategy& s) {
  return because(
      fmt::format("shard {} does not divide dp*cp = {}*{} = {}", s.shard_group,
                  s.data, s.context, std::int64_t{s.data} * s.context),
      nearest_sizes(kShard, s.data * s.context, shard_broken, g, s));
}

bool parameters_replicated(const Setting&, const Strategy& s) {
  return s.offload.parameters != OffloadTier::none &&
         s.zero != kShardedParameters;
}

Misfit explain_parameters_replicated(const Setting&, const Strategy& s) {
  return because(fmt::format("offload={} moves parameters, which zero={} does "
                             "not partition",
                             to_text(s.offload), s.zero),
                 "zero 3, or offload of the optimizer alone");
}

// hpZ, quantized weights and what ZeRO 3 gathers in elements.
bool sharded_tuning_broken(const Setting&, const Strategy& s) {
  if (s.zero == kShardedParameters) return false;
  const Tuning& t = s.tuning;
  return t.secondary > 0 || t.quantized_weights || t.prefetch || t.live ||
         t.persistent || t.persistent_total;
}

Misfit explain_sharded_tuning(const Setting&, const Strategy& s) {
  return because(
      fmt::format("hpz, qw, prefetch, live and persist are of parameters that "
                  "are gathered, and zero={} keeps them whole",
                  s.zero),
      "zero 3, or none of them");
}

bool nvme_missing(const Setting& g, const Strategy& s) {
  const bool wanted = s.offload.optimizer == OffloadTier::nvme ||
                      s.offload.parameters == OffloadTier::nvme;
  return wanted && g.cluster.host.nvme.value == 0;
}

Misfit explain_nvme_missing(const Setting& g, const Strategy& s) {
  return because(fmt::format("offload={} needs NVMe drives, and {} lists none",
                             to_text(s.offload), g.cluster.name),
                 "offload=cpu, or name the drives: --nvme 4TB@6GB/s");
}

constexpr Rule kRules[] = {
    {"batch-divide",
     "deepspeedai/DeepSpeed deepspeed/runtime/config.py _batch_assertion; "
     "NVIDIA/Megatron-LM megatron/training/arguments.py",
     batch_broken, explain_batch},
    {"shard-needs-zero", "Rajbhandari et al. 2020, arXiv 1910.02054, section 5",
     shard_unused, explain_shard_unused},
    {"shard-divides",
     "NVIDIA/Megatron-LM megatron/core/parallel_state.py: "
     "num_distributed_optimizer_instances divides dp*cp",
     shard_broken, explain_shard},
    {"parameter-offload-needs-zero-3",
     "deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py: offload_param "
     "with stage 3 only",
     parameters_replicated, explain_parameters_replicated},
    {"sharded-tuning",
     "deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py: "
     "stage3_prefetch_bucket_size, stage3_max_live_parameters, "
     "zero_hpz_partition_size; Wang et al. 2023, arXiv 2306.10209",
     sharded_tuning_broken, explain_sharded_tuning},
    {"nvme-present",
     "Rajbhandari et al. 2021, arXiv 2104.07857, section 5: a drive a node",
     nvme_missing, explain_nvme_missing},
};

}  // namespace

std::span<const Rule> state_rules() { return kRules; }

}  // namespace ztplan
