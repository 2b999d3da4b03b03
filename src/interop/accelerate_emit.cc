// Keys: huggingface/accelerate 1.15, src/accelerate/commands/config/
// config_args.py, src/accelerate/utils/dataclasses.py.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "interop/accelerate.h"
#include "interop/formats.h"
#include "interop/launch.h"
#include "interop/sharding.h"

namespace ztplan {
namespace {

std::string mixed_precision(const Workload& w) {
  if (w.precision == Precision::fp32) return "'no'";
  return std::string(to_text(w.precision));
}

std::string machines(const Emission& e) {
  const Ranks ranks = ranks_of(e);
  std::string text = fmt::format(
      "num_machines: {}\nnum_processes: {}\nmachine_rank: 0\n"
      "rdzv_backend: static\nsame_network: true\n",
      ranks.nodes, e.plan.gpus);
  if (ranks.nodes > 1)
    text += "main_process_ip: node1\nmain_process_port: 29500\n";
  return text;
}

std::string fsdp(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  if (s.zero == 0) return "";
  return fmt::format(
      "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: {}\n"
      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
      "  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
      "  fsdp_offload_params: {}\n  fsdp_activation_checkpointing: {}\n"
      "  fsdp_cpu_ram_efficient_loading: {}\n",
      s.zero == 3, s.offload.parameters != OffloadTier::none,
      s.recompute.mode == Recompute::Mode::full,
      e.question.workload.loading == Loading::partitioned);
}

void refuse_replicas_alone(const Strategy& s) {
  const Mesh mesh = mesh_of(s);
  if (accelerate_refuses(mesh, s))
    throw Error(
        fmt::format("accelerate cuts tensors and context beside a "
                    "dp_shard_size above 1; {} replicas of tp {}, cp {} shard "
                    "over no rank of their own",
                    mesh.replicate, s.tensor, s.context),
        fmt::format("shard={} or more, or emit for torchtitan", 2 * s.context));
}

std::string mesh(const Strategy& s) {
  const Mesh mesh = mesh_of(s);
  const bool plain = mesh.replicate == 1 || s.zero == 0;
  if (plain && s.tensor == 1 && s.context == 1) return "";
  std::string text = fmt::format(
      "parallelism_config:\n  parallelism_config_dp_replicate_size: {}\n"
      "  parallelism_config_dp_shard_size: {}\n"
      "  parallelism_config_tp_size: {}\n  parallelism_config_cp_size: {}\n",
      mesh.replicate, mesh.shard, s.tensor, s.context);
  if (s.context > 1)
    text += "  parallelism_config_cp_comm_strategy: allgather\n";
  return text;
}

std::string config(const Emission& e) {
  const bool sharded = e.plan.strategy.zero > 0;
  return fmt::format(
             "compute_environment: LOCAL_MACHINE\ndebug: false\n"
             "distributed_type: {}\ndowncast_bf16: 'no'\n"
             "enable_cpu_affinity: false\nmain_training_function: main\n"
             "mixed_precision: {}\nuse_cpu: false\n",
             sharded ? "FSDP" : "MULTI_GPU",
             mixed_precision(e.question.workload)) +
         machines(e) + fsdp(e) + mesh(e.plan.strategy);
}

/// A plan that reduces every micro-batch says so; accelerate would not.
std::string accumulation(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  const Workload& w = e.question.workload;
  const auto steps = micro_batches(s, w);
  if (s.zero == 0 || steps == 1 || w.framework.reduces_once)
    return fmt::format(
        "accumulation={}: Accelerator(gradient_accumulation_steps)", steps);
  return fmt::format(
      "accumulation={}: GradientAccumulationPlugin(num_steps={}, "
      "sync_each_batch=True), which reduces in each as planned",
      steps, steps);
}

std::vector<std::string> unsaid(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  const Workload& w = e.question.workload;
  std::vector<std::string> keys = {
      fmt::format("micro={}: of the data loader", s.micro_batch),
      accumulation(e), fmt::format("seq={}: of the data loader", w.sequence),
      fmt::format("attention={}: attn_implementation of the model",
                  to_text(w.attention))};
  if (s.recompute.mode == Recompute::Mode::selective || s.recompute.layers > 0)
    keys.push_back(
        fmt::format("recompute={}: of the model", to_text(s.recompute)));
  if (w.adapters.any())
    keys.push_back(
        fmt::format("lora {}: peft.LoraConfig", to_text(w.adapters)));
  return keys;
}

bool recognizes(std::string_view path, std::string_view text) {
  const bool yaml = path.ends_with(".yaml") || path.ends_with(".yml");
  return yaml && (text.find("distributed_type") != std::string_view::npos ||
                  text.find("fsdp_config") != std::string_view::npos ||
                  text.find("deepspeed_config") != std::string_view::npos);
}

}  // namespace

Emitted emit_accelerate(const Emission& e) {
  refuse_pipeline_and_experts("accelerate", e.plan.strategy);
  refuse_replicas_alone(e.plan.strategy);
  const Launch launch{
      .node_command = "accelerate launch --config_file accelerate.yaml",
      .program = "\"${TRAIN:-train.py}\"",
      .arguments = {"\"$@\""},
      .note = "accelerate 1.15 and a train.py with an Accelerator"};
  return with_launch(e, launch, {{"accelerate.yaml", config(e)}}, unsaid(e));
}

const FileFormat& accelerate_format() {
  static constexpr FileFormat kFormat{"accelerate",    "fsdp",
                                      recognizes,      read_accelerate,
                                      emit_accelerate, "accelerate"};
  return kFormat;
}

}  // namespace ztplan
