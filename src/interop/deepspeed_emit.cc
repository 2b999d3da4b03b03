// ds_config.json: every key that the plan decides, and none that DeepSpeed
// 0.19 refuses or ignores. Keys: deepspeedai/DeepSpeed deepspeed/runtime/
// config.py, runtime/zero/config.py, runtime/precision_config.py.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "interop/deepspeed.h"
#include "interop/launch.h"
#include "strategy/engines/deepspeed_rules.h"
#include "strategy/ledger.h"

namespace ztplan {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kParameters = 3;  // the ZeRO stage that shards them

/// Trained parameters of the fullest stage: no bucket needs more elements.
std::int64_t trained_elements(const Emission& e) {
  const Setting setting{e.question.model, e.question.cluster,
                        e.question.workload};
  const LayerKinds kinds = layer_kinds(e.question.model);
  const StageSizes sizes =
      stage_sizes(setting, *e.plan.engine, kinds, e.plan.strategy);
  std::int64_t most = 1;
  for (const StageShape& shape : stage_shapes(kinds, e.plan.strategy))
    most = std::max(most, stage_share(setting, sizes, shape).trained());
  return most;
}

/// Even, as stages 1 and 2 ask of the gather bucket.
std::int64_t bucket_elements(const Emission& e) {
  const std::int64_t own = e.plan.engine->bucket_elements;
  const std::int64_t wanted = e.plan.strategy.tuning.bucket.value_or(
      std::min(own, trained_elements(e)));
  return round_up(std::max<std::int64_t>(wanted, 2), 2);
}

Json offload_optimizer(const Strategy& s) {
  Json block = {{"device", to_text(s.offload.optimizer)}, {"pin_memory", true}};
  if (s.offload.optimizer != OffloadTier::nvme) return block;
  // Adam swaps a master, two moments and a gradient: four buffers at least.
  constexpr int kBuffers = 4;
  block["nvme_path"] = "/local_nvme";
  block["buffer_count"] = kBuffers;
  block["pipeline_read"] = false;
  block["pipeline_write"] = false;
  return block;
}

Json offload_parameters(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  Json block = {{"device", to_text(s.offload.parameters)},
                {"pin_memory", true}};
  if (s.offload.parameters != OffloadTier::nvme) return block;
  const ModelSpec& model = e.question.model;
  // A buffer takes the largest shard of one parameter. Source:
  // deepspeed/runtime/swap_tensor/partitioned_param_swapper.py.
  const std::int64_t largest =
      std::max<std::int64_t>(embedding_parameters(model),
                             std::int64_t{model.hidden} * model.hidden * 4);
  constexpr int kBuffers = 5;
  constexpr std::int64_t kDefaultElements = 100'000'000;
  block["nvme_path"] = "/local_nvme";
  block["buffer_count"] = kBuffers;
  block["buffer_size"] = std::max(
      kDefaultElements, divide_up(largest, std::int64_t{s.data} * s.context));
  return block;
}

void add_stage_3(const Emission& e, Json& zero) {
  const Strategy& s = e.plan.strategy;
  const Tuning& t = s.tuning;
  if (t.prefetch) zero["stage3_prefetch_bucket_size"] = *t.prefetch;
  if (t.live) zero["stage3_max_live_parameters"] = *t.live;
  if (t.persistent) zero["stage3_param_persistence_threshold"] = *t.persistent;
  if (t.persistent_total)
    zero["stage3_model_persistence_threshold"] = *t.persistent_total;
  zero["stage3_gather_16bit_weights_on_model_save"] = true;
  if (s.shard_group > 0) zero["mics_shard_size"] = s.shard_group;
  if (t.secondary > 0) zero["zero_hpz_partition_size"] = t.secondary;
  if (t.quantized_weights) zero["zero_quantized_weights"] = true;
  if (t.compression == Compression::quantized)
    zero["zero_quantized_gradients"] = true;
}

// Muon takes whole gradients where stage 3 or the host would get shards.
// Source: deepspeed/runtime/zero/stage3.py, stage_1_and_2.py.
bool needs_whole_gradients(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  return e.question.workload.optimizer == OptimizerKind::muon &&
         (s.zero == kParameters || s.offload.optimizer != OffloadTier::none);
}

Json zero_block(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  Json zero = {{"stage", s.zero}};
  if (s.zero == 0) return zero;
  zero["contiguous_gradients"] = true;
  zero["overlap_comm"] =
      overlaps_reduction(*e.plan.engine, s) && s.pipeline == 1;
  zero["reduce_scatter"] = !needs_whole_gradients(e);
  zero["reduce_bucket_size"] = bucket_elements(e);
  if (s.zero < kParameters) zero["allgather_bucket_size"] = bucket_elements(e);
  if (s.offload.optimizer != OffloadTier::none)
    zero["offload_optimizer"] = offload_optimizer(s);
  if (s.offload.parameters != OffloadTier::none)
    zero["offload_param"] = offload_parameters(e);
  if (s.zero == kParameters) add_stage_3(e, zero);
  return zero;
}

const char* optimizer_name(const Emission& e) {
  const bool one_bit =
      e.plan.strategy.tuning.compression == Compression::one_bit;
  switch (e.question.workload.optimizer) {
    case OptimizerKind::lamb:
      return one_bit ? "OneBitLamb" : "Lamb";
    case OptimizerKind::lion:
      return "Lion";
    case OptimizerKind::adagrad:
      return "Adagrad";
    case OptimizerKind::muon:
      return "Muon";
    case OptimizerKind::sgd:
    case OptimizerKind::momentum:
      return "SGD";
    case OptimizerKind::adam8bit:
      return "";  // bitsandbytes' own, handed to deepspeed.initialize
    case OptimizerKind::adam:
      break;
  }
  return one_bit ? "OneBitAdam" : "AdamW";
}

void add_optimizer(const Emission& e, Json& config) {
  const std::string name = optimizer_name(e);
  // Common values; the user's recipe decides them.
  Json params = {{"lr", 1e-4}, {"weight_decay", 0.1}};
  const OptimizerKind kind = e.question.workload.optimizer;
  if (kind == OptimizerKind::adam || kind == OptimizerKind::lamb)
    params["betas"] = {0.9, 0.95};
  if (kind == OptimizerKind::momentum) params["momentum"] = 0.9;
  if (!name.empty()) config["optimizer"] = {{"type", name}, {"params", params}};
  const bool untested = name.empty() || name == "SGD";
  if (untested && e.plan.strategy.zero > 0)
    config["zero_allow_untested_optimizer"] = true;
}

void add_precision(const Emission& e, Json& config) {
  const Workload& w = e.question.workload;
  if (w.precision == Precision::bf16) config["bf16"] = {{"enabled", true}};
  if (w.precision == Precision::fp16)
    config["fp16"] = {{"enabled", true},           {"loss_scale", 0},
                      {"initial_scale_power", 16}, {"loss_scale_window", 1000},
                      {"hysteresis", 2},           {"min_loss_scale", 1}};
  if (w.gradient != w.precision && w.precision != Precision::fp32)
    config["data_types"] = {{"grad_accum_dtype", to_text(w.gradient)}};
  // Sequence parallelism reads a key of its own, fp32 unless told otherwise.
  const Strategy& s = e.plan.strategy;
  if (const auto dtype = s.tuning.communication)
    config[s.context > 1 ? "seq_parallel_communication_data_type"
                         : "communication_data_type"] = to_text(*dtype);
}

/// Where AutoEP may run: with AutoTP it refuses any offload. Source:
/// deepspeed/module_inject/auto_ep_folding.py.
bool uses_auto_ep(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  const bool folds = s.tensor == 1 || s.offload == Offload{};
  return s.expert > 1 && s.pipeline == 1 && s.context == 1 && folds &&
         auto_ep_replaces(e.question.model);
}

void add_layout(const Emission& e, Json& config) {
  const Strategy& s = e.plan.strategy;
  if (s.context > 1) {
    config["sequence_parallel_size"] = s.context;
    config["data_parallel_size"] = s.data;
  }
  if (s.tensor > 1 && s.pipeline == 1)
    config["tensor_parallel"] = {{"autotp_size", s.tensor}};
  if (uses_auto_ep(e))
    config["expert_parallel"] = {{"enabled", true}, {"autoep_size", s.expert}};
  const bool on_nvme = s.offload.optimizer == OffloadTier::nvme ||
                       s.offload.parameters == OffloadTier::nvme;
  if (on_nvme)
    config["aio"] = {{"block_size", 1048576},
                     {"queue_depth", 16},
                     {"intra_op_parallelism", 1},
                     {"single_submit", false},
                     {"overlap_events", true}};
}

/// With AutoTP the product is checked against the whole world, so that
/// train_batch_size cannot be said (deepspeed/runtime/config.py).
void add_batch(const Emission& e, Json& config) {
  const Strategy& s = e.plan.strategy;
  config["train_micro_batch_size_per_gpu"] = s.micro_batch;
  config["gradient_accumulation_steps"] = micro_batches(s, e.question.workload);
  if (s.tensor == 1)
    config["train_batch_size"] = e.question.workload.global_batch;
}

Json ds_config(const Emission& e) {
  Json config;
  add_batch(e, config);
  config["zero_optimization"] = zero_block(e);
  add_precision(e, config);
  config["gradient_clipping"] = 1.0;
  add_optimizer(e, config);
  add_layout(e, config);
  config["wall_clock_breakdown"] = false;
  return config;
}

std::vector<std::string> unsaid(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  std::vector<std::string> keys;
  if (s.pipeline > 1)
    keys.push_back(
        fmt::format("pp={}: build the model as PipelineModule(num_stages={})",
                    s.pipeline, s.pipeline));
  if (s.tensor > 1 && s.pipeline > 1)
    keys.push_back(fmt::format(
        "tp={}: under a pipeline it is the model's own (mpu)", s.tensor));
  if (uses_auto_ep(e))
    keys.emplace_back(
        "names of experts: AutoEP knows Mixtral's, Qwen3-MoE's and DeepSeek's; "
        "others need moe_layer_pattern and its kin");
  else if (s.expert > 1)
    keys.push_back(fmt::format("ep={}: deepspeed.moe.layer.MoE(ep_size={})",
                               s.expert, s.expert));
  if (s.recompute.mode != Recompute::Mode::none)
    keys.push_back(
        fmt::format("recompute={}: model.gradient_checkpointing_enable()",
                    to_text(s.recompute)));
  keys.push_back(
      fmt::format("seq={}: of the data loader", e.question.workload.sequence));
  keys.push_back(fmt::format("attention={}: attn_implementation of the model",
                             to_text(e.question.workload.attention)));
  return keys;
}

}  // namespace

Emitted emit_deepspeed(const Emission& e) {
  const Launch launch{
      .program = "\"${TRAIN:-train.py}\"",
      .arguments = {"--deepspeed_config ds_config.json", "\"$@\""},
      .note = "DeepSpeed 0.19 and a train.py that calls deepspeed.initialize"};
  return with_launch(
      e, launch, {{"ds_config.json", ds_config(e).dump(2) + "\n"}}, unsaid(e));
}

}  // namespace ztplan
