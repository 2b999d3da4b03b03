// Reads accelerate's YAML; what its own loader refuses is a finding.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "interop/accelerate.h"
#include "interop/findings.h"
#include "interop/sharding.h"
#include "interop/yaml.h"

namespace ztplan {
namespace {

constexpr const char* kConfigArgs =
    "huggingface/accelerate src/accelerate/commands/config/config_args.py";
constexpr const char* kDataclasses =
    "huggingface/accelerate src/accelerate/utils/dataclasses.py";
constexpr const char* kParallelismConfig =
    "huggingface/accelerate src/accelerate/parallelism_config.py";
constexpr UnknownKey kRefused{Severity::refused, "is refused", kConfigArgs};
constexpr UnknownKey kIgnored{Severity::trap, "is ignored", kDataclasses};

constexpr std::string_view kTop[] = {"compute_environment",
                                     "distributed_type",
                                     "mixed_precision",
                                     "num_machines",
                                     "num_processes",
                                     "machine_rank",
                                     "main_process_ip",
                                     "main_process_port",
                                     "rdzv_backend",
                                     "same_network",
                                     "main_training_function",
                                     "gpu_ids",
                                     "debug",
                                     "use_cpu",
                                     "downcast_bf16",
                                     "enable_cpu_affinity",
                                     "fsdp_config",
                                     "deepspeed_config",
                                     "parallelism_config",
                                     "megatron_lm_config",
                                     "fp8_config",
                                     "dynamo_config",
                                     "tpu_env",
                                     "tpu_use_cluster",
                                     "tpu_use_sudo",
                                     "mpirun_config",
                                     "ipex_config",
                                     "command_file",
                                     "commands",
                                     "deepspeed_hostfile",
                                     "deepspeed_multinode_launcher"};
constexpr std::string_view kFsdp[] = {"fsdp_version",
                                      "fsdp_sharding_strategy",
                                      "fsdp_reshard_after_forward",
                                      "fsdp_auto_wrap_policy",
                                      "fsdp_transformer_layer_cls_to_wrap",
                                      "fsdp_min_num_params",
                                      "fsdp_state_dict_type",
                                      "fsdp_forward_prefetch",
                                      "fsdp_backward_prefetch",
                                      "fsdp_backward_prefetch_policy",
                                      "fsdp_use_orig_params",
                                      "fsdp_sync_module_states",
                                      "fsdp_offload_params",
                                      "fsdp_activation_checkpointing",
                                      "fsdp_cpu_ram_efficient_loading"};
constexpr std::string_view kParallelism[] = {
    "parallelism_config_dp_replicate_size",
    "parallelism_config_dp_shard_size",
    "parallelism_config_tp_size",
    "parallelism_config_cp_size",
    "parallelism_config_cp_backend",
    "parallelism_config_cp_comm_strategy",
    "parallelism_config_sp_size",
    "parallelism_config_sp_backend",
    "parallelism_config_sp_seq_length",
    "parallelism_config_sp_seq_length_is_variable",
    "parallelism_config_sp_attn_implementation"};
constexpr std::string_view kDeepspeed[] = {"deepspeed_config_file",
                                           "zero_stage",
                                           "gradient_accumulation_steps",
                                           "gradient_clipping",
                                           "offload_optimizer_device",
                                           "offload_param_device",
                                           "offload_optimizer_nvme_path",
                                           "offload_param_nvme_path",
                                           "zero3_init_flag",
                                           "zero3_save_16bit_model",
                                           "deepspeed_hostfile",
                                           "deepspeed_multinode_launcher",
                                           "deepspeed_moe_layer_cls_names",
                                           "deepspeed_inclusion_filter",
                                           "deepspeed_exclusion_filter"};

// DistributedType of src/accelerate/utils/dataclasses.py.
constexpr std::string_view kTypes[] = {
    "NO",         "MULTI_CPU",  "MULTI_GPU",    "MULTI_NPU", "MULTI_MLU",
    "MULTI_SDAA", "MULTI_MUSA", "MULTI_NEURON", "MULTI_XPU", "DEEPSPEED",
    "FSDP",       "XLA",        "MEGATRON_LM",  "MULTI_HPU"};

class Reader : private Reading {
 public:
  Reader(const YAML::Node& root, std::string_view path, const Given& given)
      : Reading("fsdp", given), root_(root), path_(path) {}

  Configuration read() && {
    find_unknown(keys_of(root_), "", kTop, kRefused, c_.findings);
    read_machines();
    read_precision();
    const std::string type = read_type();
    if (type == "FSDP" || root_["fsdp_config"].IsDefined()) read_fsdp();
    if (type == "MULTI_GPU") {
      const Mesh mesh = read_mesh();
      set_mesh({1, 1}, true, c_.strategy);
      c_.strategy.data = static_cast<int>(std::min<std::int64_t>(
          std::int64_t{mesh.replicate} * mesh.shard, kMaxDevices));
    }
    if (type == "DEEPSPEED") read_deepspeed();
    c_.unsaid = {"micro", "accumulation", "seq", "attention"};
    return std::move(c_);
  }

 private:
  std::string read_type() {
    const std::string type = word_or(root_, path_, "distributed_type", "");
    const bool is_known = std::ranges::find(kTypes, type) != std::end(kTypes);
    if (!is_known) {
      const std::vector<std::string> names(std::begin(kTypes),
                                           std::end(kTypes));
      const std::string close = nearest_name(type, names);
      find(Severity::refused, "distributed-type", "distributed_type",
           type.empty() ? "it is required"
                        : fmt::format("there is no type {}", quote(type)),
           close.empty() ? "FSDP, MULTI_GPU, DEEPSPEED or NO"
                         : fmt::format("did you mean {}?", close),
           kConfigArgs);
    }
    return is_known ? type : "NO";
  }

  YAML::Node block(const char* name) {
    const YAML::Node node = root_[name];
    if (!node.IsDefined() || node.IsNull())
      return YAML::Node(YAML::NodeType::Map);
    if (node.IsMap()) return node;
    throw Error(fmt::format("{}: {} must be a map", path_, name));
  }

  void read_machines() {
    const int processes = whole_or(root_, path_, "num_processes", 0);
    if (processes > 0) c_.gpus = processes;
    const int machines = whole_or(root_, path_, "num_machines", 1);
    if (machines > 0 && processes > 0 && processes % machines != 0)
      find(Severity::refused, "processes-divide", "num_processes",
           fmt::format("{} processes on {} machines; the number is of all "
                       "machines together",
                       processes, machines),
           fmt::format("{}", round_up(processes, machines)), kConfigArgs);
    if (machines > 1 && processes > 0 && processes <= 8 &&
        processes < machines * 2)
      find(Severity::advice, "processes-of-all-machines", "num_processes",
           fmt::format("{} processes on {} machines leave one GPU a machine",
                       processes, machines),
           "machines times GPUs of one", kConfigArgs);
  }

  void read_precision() {
    const std::string text = word_or(root_, path_, "mixed_precision", "no");
    c_.parameter = Precision::fp32;
    c_.precision = Precision::fp32;
    if (text == "bf16") c_.precision = Precision::bf16;
    if (text == "fp16") c_.precision = Precision::fp16;
    if (text == "fp8") c_.precision = Precision::fp8;
    if (text != "no" && text != "bf16" && text != "fp16" && text != "fp8" &&
        text != "false")
      throw Error(
          fmt::format("{}: mixed_precision must be no, fp16, bf16 or "
                      "fp8, not {}",
                      path_, quote(text)));
    c_.gradient = Precision::fp32;
  }

  int gpus() const {
    return given_.gpus > 0 ? given_.gpus : c_.gpus.value_or(1);
  }

  Mesh read_mesh() {
    Strategy& s = c_.strategy;
    const YAML::Node node = block("parallelism_config");
    find_unknown(keys_of(node), "parallelism_config", kParallelism, kIgnored,
                 c_.findings);
    const auto size = [&](const char* key, int missing) {
      return std::max(missing, whole_or(node, path_, key, missing));
    };
    s.tensor = size("parallelism_config_tp_size", 1);
    s.context = size("parallelism_config_cp_size", 1);
    Mesh mesh{size("parallelism_config_dp_replicate_size", 1),
              size("parallelism_config_dp_shard_size", 0)};
    if (mesh.shard == 0)
      mesh.shard = std::max(1, ranks_left(gpus(), s) / mesh.replicate);
    const std::int64_t product =
        std::int64_t{s.tensor} * s.context * mesh.replicate * mesh.shard;
    if (c_.gpus && product != *c_.gpus)
      find(Severity::refused, "mesh-is-processes", "parallelism_config",
           fmt::format("its sizes multiply to {}, num_processes is {}", product,
                       *c_.gpus),
           "sizes whose product is num_processes", kParallelismConfig);
    if (accelerate_refuses(mesh, s))
      find(Severity::refused, "replicas-alone",
           "parallelism_config.parallelism_config_dp_shard_size",
           fmt::format("tp_size {} and cp_size {} beside {} replicas and a "
                       "dp_shard_size of 1",
                       s.tensor, s.context, mesh.replicate),
           "a dp_shard_size above 1, or a dp_replicate_size of 1",
           kParallelismConfig);
    return mesh;
  }

  void read_fsdp() {
    const YAML::Node node = block("fsdp_config");
    find_unknown(keys_of(node), "fsdp_config", kFsdp, kIgnored, c_.findings);
    const int version = whole_or(node, path_, "fsdp_version", 1);
    Mesh mesh = read_mesh();
    bool reshards = true;
    const std::string kind =
        word_or(node, path_, "fsdp_sharding_strategy", "FULL_SHARD");
    const std::string after =
        word_or(node, path_, "fsdp_reshard_after_forward", "true");
    if (version == 2) {
      if (after != "true" && after != "false")
        find(Severity::refused, "reshard-is-bool",
             "fsdp_config.fsdp_reshard_after_forward",
             fmt::format("FSDP2 takes true or false, not {}", quote(after)),
             "true (ZeRO 3) or false (ZeRO 2)", kDataclasses);
      reshards = after != "false";
      if (node["fsdp_forward_prefetch"].IsDefined())
        find(Severity::refused, "no-forward-prefetch",
             "fsdp_config.fsdp_forward_prefetch", "FSDP2 refuses it",
             "remove it", kDataclasses);
    } else {
      reshards = kind != "SHARD_GRAD_OP" && kind != "HYBRID_SHARD_ZERO2";
      const bool hybrid = kind.starts_with("HYBRID");
      const int per_node =
          gpus() / std::max(1, whole_or(root_, path_, "num_machines", 1));
      if (hybrid && per_node > 0 && gpus() % per_node == 0)
        mesh = {gpus() / per_node, per_node};
      if (kind == "NO_SHARD") mesh = {gpus(), 1};
    }
    set_mesh(mesh, reshards, c_.strategy);
    if (truth_or(node, path_, "fsdp_offload_params", false))
      c_.strategy.offload = {OffloadTier::cpu, OffloadTier::cpu};
    if (truth_or(node, path_, "fsdp_activation_checkpointing", false))
      c_.strategy.recompute.mode = Recompute::Mode::full;
    if (word_or(node, path_, "fsdp_auto_wrap_policy", "NO_WRAP") == "NO_WRAP")
      find(Severity::trap, "no-wrap", "fsdp_config.fsdp_auto_wrap_policy",
           "without a wrap policy the whole model is gathered at once",
           "TRANSFORMER_BASED_WRAP", kDataclasses);
  }

  OffloadTier tier(const YAML::Node& node, const char* key) {
    const std::string text = word_or(node, path_, key, "none");
    if (text == "cpu") return OffloadTier::cpu;
    if (text == "nvme") return OffloadTier::nvme;
    return OffloadTier::none;
  }

  void read_deepspeed() {
    c_.engine = &find_engine("deepspeed");
    c_.parameter.reset();
    c_.gradient = c_.precision;
    const YAML::Node node = block("deepspeed_config");
    find_unknown(keys_of(node), "deepspeed_config", kDeepspeed, kIgnored,
                 c_.findings);
    const std::string file = word_or(node, path_, "deepspeed_config_file", "");
    if (!file.empty()) {
      find(Severity::advice, "other-file",
           "deepspeed_config.deepspeed_config_file",
           fmt::format("the settings are in {}", quote(file)),
           fmt::format("ztplan check {}", file), kDataclasses);
      return;
    }
    Strategy& s = c_.strategy;
    constexpr int kDefaultStage = 2, kHighest = 3;
    s.zero =
        std::min(kHighest, whole_or(node, path_, "zero_stage", kDefaultStage));
    s.data = ranks_left(gpus(), s);
    s.offload.optimizer = tier(node, "offload_optimizer_device");
    if (s.zero == kHighest)
      s.offload.parameters = tier(node, "offload_param_device");
    const int steps = whole_or(node, path_, "gradient_accumulation_steps", 0);
    if (steps > 0) c_.accumulation = steps;
  }

  const YAML::Node& root_;
  std::string_view path_;
};

}  // namespace

Configuration read_accelerate(std::string_view path, std::string_view text,
                              const Given& given) {
  const YAML::Node root = parse_yaml(path, text);
  return Reader(root, path, given).read();
}

}  // namespace ztplan
