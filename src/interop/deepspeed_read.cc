// Reads ds_config.json as DeepSpeed 0.19 does: comments are allowed, unknown
// keys are ignored at the top and refused in the blocks that pydantic checks.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "interop/deepspeed.h"
#include "interop/findings.h"
#include "interop/formats.h"

namespace ztplan {
namespace {

constexpr const char* kConfig =
    "deepspeedai/DeepSpeed deepspeed/runtime/config.py";
constexpr const char* kZeroConfig =
    "deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py";

constexpr std::string_view kTopKeys[] = {"train_batch_size",
                                         "train_micro_batch_size_per_gpu",
                                         "gradient_accumulation_steps",
                                         "managed_gradient_accumulation",
                                         "optimizer",
                                         "scheduler",
                                         "fp16",
                                         "bf16",
                                         "bfloat16",
                                         "amp",
                                         "torch_autocast",
                                         "data_types",
                                         "gradient_clipping",
                                         "communication_data_type",
                                         "seq_parallel_communication_data_type",
                                         "prescale_gradients",
                                         "gradient_predivide_factor",
                                         "gradient_allreduce_op",
                                         "sparse_gradients",
                                         "disable_allgather",
                                         "dump_state",
                                         "memory_breakdown",
                                         "wall_clock_breakdown",
                                         "graph_harvesting",
                                         "dataloader_drop_last",
                                         "steps_per_print",
                                         "zero_optimization",
                                         "zero_allow_untested_optimizer",
                                         "zero_force_ds_cpu_optimizer",
                                         "vocabulary_size",
                                         "use_data_before_expert_parallelism",
                                         "sequence_parallel_size",
                                         "data_parallel_size",
                                         "mesh_param",
                                         "log_level",
                                         "activation_checkpointing",
                                         "aio",
                                         "flops_profiler",
                                         "comms_logger",
                                         "autotuning",
                                         "elasticity",
                                         "checkpoint",
                                         "pipeline",
                                         "tensor_parallel",
                                         "expert_parallel",
                                         "compile",
                                         "timers",
                                         "tensorboard",
                                         "wandb",
                                         "csv_monitor",
                                         "comet",
                                         "hybrid_engine",
                                         "nebula",
                                         "datastates_ckpt",
                                         "data_efficiency",
                                         "curriculum_learning",
                                         "compression_training",
                                         "weight_quantization",
                                         "quantize_training",
                                         "eigenvalue",
                                         "progressive_layer_drop",
                                         "sparse_attention"};

constexpr std::string_view kZeroKeys[] = {
    "stage",
    "contiguous_gradients",
    "reduce_scatter",
    "reduce_bucket_size",
    "use_multi_rank_bucket_allreduce",
    "allgather_partitions",
    "allgather_bucket_size",
    "overlap_comm",
    "load_from_fp32_weights",
    "elastic_checkpoint",
    "offload_param",
    "offload_optimizer",
    "zenflow",
    "sub_group_size",
    "stage3_prefetch_bucket_size",
    "prefetch_bucket_size",
    "stage3_param_persistence_threshold",
    "param_persistence_threshold",
    "stage3_model_persistence_threshold",
    "model_persistence_threshold",
    "stage3_max_live_parameters",
    "max_live_parameters",
    "stage3_max_reuse_distance",
    "max_reuse_distance",
    "stage3_gather_16bit_weights_on_model_save",
    "gather_16bit_weights_on_model_save",
    "stage3_gather_fp16_weights_on_model_save",
    "stage3_module_granularity_threshold",
    "module_granularity_threshold",
    "stage3_use_all_reduce_for_fetch_params",
    "use_all_reduce_for_fetch_params",
    "stage3_allgather_sequential",
    "allgather_sequential",
    "ignore_unused_parameters",
    "legacy_stage1",
    "round_robin_gradients",
    "zero_hpz_partition_size",
    "zero_quantized_weights",
    "zero_quantized_nontrainable_weights",
    "zero_quantized_gradients",
    "zeropp_loco_param",
    "mics_shard_size",
    "mics_hierarchical_params_gather",
    "memory_efficient_linear",
    "override_module_apply",
    "pipeline_loading_checkpoint",
    "log_trace_cache_warnings",
    "enable_sanity_checks",
    "save_muon_momentum_buffer_in_memory",
    "leaf_module",
    "cpu_offload",
    "cpu_offload_param",
    "cpu_offload_use_pin_memory"};

constexpr std::string_view kOffloadParamKeys[] = {"device",       "nvme_path",
                                                  "buffer_count", "buffer_size",
                                                  "max_in_cpu",   "pin_memory"};
constexpr std::string_view kOffloadOptimizerKeys[] = {
    "device",   "nvme_path",     "buffer_count",      "pin_memory",
    "pipeline", "pipeline_read", "pipeline_write",    "fast_init",
    "ratio",    "super_offload", "cpuadam_cores_perc"};
constexpr std::string_view kFp16Keys[] = {"enabled",
                                          "auto_cast",
                                          "loss_scale",
                                          "initial_scale_power",
                                          "loss_scale_window",
                                          "hysteresis",
                                          "consecutive_hysteresis",
                                          "min_loss_scale",
                                          "fp16_master_weights_and_grads"};
constexpr std::string_view kBf16Keys[] = {
    "enabled", "immediate_grad_update", "check_grad_overflow",
    "bf16_master_weights_and_grads", "bf16_optimizer_states"};
constexpr std::string_view kTensorKeys[] = {"autotp_size",
                                            "tp_overlap_comm",
                                            "tp",
                                            "tensor_parallel",
                                            "preset_model",
                                            "partition_config",
                                            "keep_module_on_host",
                                            "kernel_inject",
                                            "dtype",
                                            "tp_gather_partition_size",
                                            "replace_with_kernel_inject"};

constexpr std::string_view kExpertKeys[] = {"enabled",
                                            "autoep_size",
                                            "expert_tensor_parallel_size",
                                            "validate_folding_routing",
                                            "preset_model",
                                            "moe_layer_pattern",
                                            "expert_pattern",
                                            "router_pattern",
                                            "use_grouped_mm",
                                            "disable_triton_grouped_mm",
                                            "route_norm",
                                            "route_scale",
                                            "score_apply",
                                            "combine_impl",
                                            "num_expert_groups",
                                            "num_limited_groups",
                                            "score_func",
                                            "top_k",
                                            "load_balance_coeff",
                                            "routed_scaling_factor",
                                            "expert_w1",
                                            "expert_w2",
                                            "expert_w3",
                                            "num_experts_attr",
                                            "top_k_attr",
                                            "has_shared_experts",
                                            "shared_experts_pattern",
                                            "shared_experts_gate_pattern"};

constexpr UnknownKey kIgnored{Severity::trap, "is ignored without a message",
                              kConfig};
constexpr UnknownKey kRefused{Severity::refused, "is refused", kZeroConfig};

/// The text without // and # comments, /* */ and commas before a closing
/// bracket, as HJSON reads it. Strings stay as they are.
std::string without_comments(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      out += c;
      if (c == '\\' && i + 1 < text.size()) out += text[++i];
      if (c == '"') in_string = false;
      continue;
    }
    const bool line = c == '#' || text.substr(i).starts_with("//");
    if (line) {
      i = std::min(text.find('\n', i), text.size());
      out += '\n';
      continue;
    }
    if (text.substr(i).starts_with("/*")) {
      i = std::min(text.find("*/", i), text.size() - 1) + 1;
      continue;
    }
    in_string = c == '"';
    out += c;
  }
  return out;
}

bool is_auto(const JsonView& view, std::string_view key) {
  if (!view.has(key)) return false;
  const JsonView value = view.at(key);
  return !value.is_number() && !value.is_object() && !value.is_array() &&
         value.path().size() > 0 && [&] {
           try {
             return value.string() == "auto";
           } catch (const Error&) {
             return false;  // a boolean
           }
         }();
}

class Reader : private Reading {
 public:
  Reader(const JsonView& root, const Given& given)
      : Reading("deepspeed", given), root_(root) {}

  Configuration read() && {
    check_top();
    read_zero();
    read_precision();
    read_layout();
    read_communication();
    read_optimizer();
    read_batch();
    tell_unsaid();
    return std::move(c_);
  }

 private:
  void check_top() {
    find_unknown(root_.keys(), "", kTopKeys, kIgnored, c_.findings);
    for (const std::string& key : root_.keys())
      if (is_auto(root_, key)) uses_auto_ = true;
    if (root_.has("amp") && root_.at("amp").boolean_or("enabled", false) &&
        root_.has("zero_optimization"))
      find(Severity::refused, "amp-without-zero", "amp",
           "apex amp does not run with ZeRO", "use bf16 or fp16", kConfig);
    if (root_.has("elasticity") && root_.has("train_batch_size") &&
        root_.at("elasticity").boolean_or("enabled", false))
      find(Severity::refused, "elastic-batch", "elasticity",
           "elastic training computes the batch: a batch key beside it is "
           "refused",
           "remove train_batch_size, or set ignore_non_elastic_batch_info",
           "deepspeedai/DeepSpeed deepspeed/elasticity/config.py");
  }

  JsonView block(const char* key, std::span<const std::string_view> known) {
    JsonView view = root_.at(key);
    if (!view.is_object()) view.fail("expected an object");
    find_unknown(view.keys(), key, known, kRefused, c_.findings);
    return view;
  }

  std::optional<std::int64_t> elements(const JsonView& view,
                                       std::string_view key) {
    if (!view.has(key)) return std::nullopt;
    if (is_auto(view, key)) {
      uses_auto_ = true;
      return std::nullopt;
    }
    const double value = view.at(key).number();
    constexpr double kMost = 1e18;
    if (value < 0 || value > kMost || value != std::floor(value))
      view.at(key).fail("expected a whole number from 0 to 1e18");
    return static_cast<std::int64_t>(value);
  }

  std::optional<std::int64_t> either(const JsonView& view, const char* name,
                                     const char* alias) {
    const auto value = elements(view, name);
    return value ? value : elements(view, alias);
  }

  std::optional<int> positive(const JsonView& view, std::string_view key) {
    constexpr int kMost = 100'000'000;
    const auto value = elements(view, key);
    if (!value) return std::nullopt;
    if (*value < 1 || *value > kMost)
      view.at(key).fail("expected a whole number above 0");
    return static_cast<int>(*value);
  }

  bool truth(const JsonView& view, std::string_view key, bool missing) {
    if (!view.has(key)) return missing;
    if (is_auto(view, key)) {
      uses_auto_ = true;
      return missing;
    }
    return view.at(key).boolean();
  }

  void read_zero() {
    if (!root_.has("zero_optimization")) return;
    const JsonView zero = block("zero_optimization", kZeroKeys);
    constexpr int kHighest = 3;
    if (zero.has("stage"))
      c_.strategy.zero = zero.at("stage").small_integer(0, kHighest);
    read_buckets(zero);
    read_offload(zero);
    read_stage_3(zero);
    check_zero(zero);
  }

  void read_buckets(const JsonView& zero) {
    Tuning& t = c_.strategy.tuning;
    if (c_.strategy.zero > 0) t.bucket = elements(zero, "reduce_bucket_size");
    follow_model(zero);
    if (zero.has("overlap_comm") && !is_auto(zero, "overlap_comm"))
      t.overlap = zero.at("overlap_comm").boolean();
  }

  /// "auto" sizes of the Hugging Face integration follow the hidden size.
  /// Source: huggingface/transformers src/transformers/integrations/
  /// deepspeed.py.
  void follow_model(const JsonView& zero) {
    if (given_.model == nullptr) return;
    const std::int64_t hidden = given_.model->hidden;
    Tuning& t = c_.strategy.tuning;
    constexpr std::int64_t kNine = 9, kTen = 10;
    if (is_auto(zero, "reduce_bucket_size")) t.bucket = hidden * hidden;
    if (c_.strategy.zero < 3) return;
    if (is_auto(zero, "stage3_prefetch_bucket_size"))
      t.prefetch = kNine * hidden * hidden / kTen;
    if (is_auto(zero, "stage3_param_persistence_threshold"))
      t.persistent = kTen * hidden;
  }

  OffloadTier tier(const JsonView& view) {
    const std::string device = view.string_or("device", "none");
    if (device == "cpu") return OffloadTier::cpu;
    if (device == "nvme") return OffloadTier::nvme;
    if (device != "none") view.at("device").fail("expected none, cpu or nvme");
    return OffloadTier::none;
  }

  void check_nvme_path(const JsonView& view, const char* key,
                       OffloadTier where) {
    if (where == OffloadTier::nvme && !view.has("nvme_path"))
      find(Severity::refused, "nvme-path",
           fmt::format("zero_optimization.{}.nvme_path", key),
           "device nvme needs a path to swap to", "add nvme_path", kZeroConfig);
  }

  void read_offload(const JsonView& zero) {
    if (zero.has("offload_optimizer")) {
      const JsonView view = zero.at("offload_optimizer");
      find_unknown(view.keys(), "zero_optimization.offload_optimizer",
                   kOffloadOptimizerKeys, kRefused, c_.findings);
      c_.strategy.offload.optimizer = tier(view);
      check_nvme_path(view, "offload_optimizer", c_.strategy.offload.optimizer);
      const double ratio = view.has("ratio") ? view.at("ratio").number() : 1;
      if (ratio < 1 && c_.strategy.zero != 3)
        find(Severity::refused, "offload-ratio-stage",
             "zero_optimization.offload_optimizer.ratio",
             fmt::format("a ratio below 1 is of stage 3; stage is {}",
                         c_.strategy.zero),
             "ratio 1, or stage 3", kZeroConfig);
    }
    if (zero.has("offload_param")) read_offload_param(zero.at("offload_param"));
    if (truth(zero, "cpu_offload", false)) {
      c_.strategy.offload.optimizer = OffloadTier::cpu;
      find(Severity::advice, "deprecated-key", "zero_optimization.cpu_offload",
           "cpu_offload is deprecated",
           "offload_optimizer: {\"device\": \"cpu\"}", kZeroConfig);
    }
  }

  void read_offload_param(const JsonView& view) {
    find_unknown(view.keys(), "zero_optimization.offload_param",
                 kOffloadParamKeys, kRefused, c_.findings);
    const OffloadTier where = tier(view);
    if (where == OffloadTier::none) return;
    check_nvme_path(view, "offload_param", where);
    if (c_.strategy.zero == 3) {
      c_.strategy.offload.parameters = where;
      return;
    }
    find(Severity::trap, "offload-param-ignored",
         "zero_optimization.offload_param",
         fmt::format("it is ignored at stage {}", c_.strategy.zero),
         "stage 3, or remove it", kZeroConfig);
  }

  void read_stage_3(const JsonView& zero) {
    Strategy& s = c_.strategy;
    if (s.zero < 3) return;
    Tuning& t = s.tuning;
    if (auto n =
            either(zero, "stage3_prefetch_bucket_size", "prefetch_bucket_size"))
      t.prefetch = n;
    if (auto n =
            either(zero, "stage3_max_live_parameters", "max_live_parameters"))
      t.live = n;
    if (auto n = either(zero, "stage3_param_persistence_threshold",
                        "param_persistence_threshold"))
      t.persistent = n;
    if (auto n = either(zero, "stage3_model_persistence_threshold",
                        "model_persistence_threshold"))
      t.persistent_total = n;
    if (auto n = positive(zero, "zero_hpz_partition_size"); n && *n > 1)
      t.secondary = *n;
    t.quantized_weights = truth(zero, "zero_quantized_weights", false);
    if (truth(zero, "zero_quantized_gradients", false))
      t.compression = Compression::quantized;
    if (zero.has("mics_shard_size")) {
      const auto shard = zero.at("mics_shard_size").integer();
      if (shard > 0 && shard <= kMaxSize)
        s.shard_group = static_cast<int>(shard);
    }
    if (!truth(zero, "stage3_gather_16bit_weights_on_model_save", false) &&
        !truth(zero, "gather_16bit_weights_on_model_save", false))
      find(Severity::trap, "save-without-gather",
           "zero_optimization.stage3_gather_16bit_weights_on_model_save",
           "saving the 16-bit model writes no weights under stage 3",
           "set it to true, or save with save_checkpoint and zero_to_fp32.py",
           "deepspeedai/DeepSpeed deepspeed/runtime/engine.py: "
           "save_16bit_model");
  }

  void check_zero(const JsonView& zero) {
    const int stage = c_.strategy.zero;
    if (truth(zero, "legacy_stage1", false))
      find(Severity::refused, "legacy-stage-1",
           "zero_optimization.legacy_stage1", "legacy_stage1 always raises",
           "remove it", kZeroConfig);
    const auto gather = elements(zero, "allgather_bucket_size");
    if (gather && *gather % 2 != 0 && (stage == 1 || stage == 2))
      find(Severity::refused, "odd-allgather-bucket",
           "zero_optimization.allgather_bucket_size",
           fmt::format("{} is odd", *gather), fmt::format("{}", *gather + 1),
           "deepspeedai/DeepSpeed deepspeed/runtime/zero/stage_1_and_2.py");
    const bool scatters = truth(zero, "reduce_scatter", true);
    const bool prescaled = root_.boolean_or("prescale_gradients", false);
    if (stage >= 2 && scatters && prescaled)
      find(Severity::refused, "prescale-with-reduce-scatter",
           "prescale_gradients",
           fmt::format("it is refused with reduce_scatter at stage {}", stage),
           "prescale_gradients false, or reduce_scatter false", kConfig);
    if (c_.strategy.offload.optimizer == OffloadTier::nvme && stage < 3)
      find(Severity::trap, "nvme-behaves-as-cpu",
           "zero_optimization.offload_optimizer.device",
           fmt::format("nvme behaves as cpu at stage {}", stage),
           "stage 3, or device cpu",
           "deepspeedai/DeepSpeed deepspeed/runtime/zero/stage_1_and_2.py");
    check_pin(zero);
  }

  void check_pin(const JsonView& zero) {
    for (const char* key : {"offload_optimizer", "offload_param"}) {
      if (!zero.has(key)) continue;
      const JsonView view = zero.at(key);
      if (tier(view) == OffloadTier::none || truth(view, "pin_memory", true))
        continue;
      find(Severity::advice, "unpinned-offload",
           fmt::format("zero_optimization.{}.pin_memory", key),
           "copies from pageable memory run at about half the rate of PCIe",
           "pin_memory true, where host memory allows it",
           "deepspeedai/DeepSpeed deepspeed/runtime/zero/offload_config.py");
    }
  }

  bool enabled(const char* key, std::span<const std::string_view> known) {
    if (!root_.has(key)) return false;
    return truth(block(key, known), "enabled", false);
  }

  void read_precision() {
    const bool bf16 =
        enabled("bf16", kBf16Keys) || enabled("bfloat16", kBf16Keys);
    const bool fp16 = enabled("fp16", kFp16Keys);
    if (bf16 && fp16)
      find(Severity::refused, "one-precision", "fp16.enabled",
           "bf16 and fp16 are both enabled", "keep one of them", kConfig);
    if (bf16) c_.precision = Precision::bf16;
    if (fp16 && !bf16) c_.precision = Precision::fp16;
    const bool said = root_.has("bf16") || root_.has("fp16") || bf16;
    if (!said) c_.precision = Precision::fp32;
    c_.gradient = c_.precision;
    if (root_.has("data_types")) {
      const JsonView types = root_.at("data_types");
      if (types.has("grad_accum_dtype"))
        c_.gradient = dtype(types.at("grad_accum_dtype"));
    }
  }

  /// Sequence parallelism reads a key of its own. Source:
  /// deepspeed/runtime/engine.py, communication_data_type.
  void read_communication() {
    const std::string_view key = c_.strategy.context > 1
                                     ? "seq_parallel_communication_data_type"
                                     : "communication_data_type";
    if (root_.has(key)) c_.strategy.tuning.communication = dtype(root_.at(key));
  }

  static Precision dtype(const JsonView& value) {
    const std::string text = value.string();
    if (text == "fp32" || text == "float32" || text == "float" ||
        text == "torch.float32")
      return Precision::fp32;
    if (text == "fp16" || text == "float16" || text == "half" ||
        text == "torch.float16")
      return Precision::fp16;
    if (text == "bf16" || text == "bfloat16" || text == "torch.bfloat16")
      return Precision::bf16;
    value.fail("expected fp32, fp16 or bf16");
  }

  void read_layout() {
    Strategy& s = c_.strategy;
    if (root_.has("tensor_parallel")) {
      const JsonView view = block("tensor_parallel", kTensorKeys);
      if (const auto size = positive_or_zero(view, "autotp_size"); size > 1)
        s.tensor = size;
      if (view.has("dtype"))
        find(Severity::refused, "tensor-parallel-dtype",
             "tensor_parallel.dtype", "no JSON value passes as a torch.dtype",
             "remove it",
             "deepspeedai/DeepSpeed deepspeed/runtime/tensor_parallel/"
             "config.py");
      if (s.tensor > 1 && root_.has("train_batch_size"))
        find(Severity::trap, "autotp-batch", "train_batch_size",
             "with autotp_size the product is checked against the whole "
             "world, not against data parallelism",
             "give train_micro_batch_size_per_gpu and "
             "gradient_accumulation_steps alone",
             kConfig);
    }
    if (root_.has("expert_parallel")) {
      const JsonView view = root_.at("expert_parallel");
      find_unknown(view.keys(), "expert_parallel", kExpertKeys, kIgnored,
                   c_.findings);
      if (view.boolean_or("enabled", false))
        s.expert = positive(view, "autoep_size").value_or(1);
    }
    if (const auto size = positive(root_, "sequence_parallel_size")) {
      s.context = *size;
      s.context_kind = *size > 1 ? ContextKind::ulysses : ContextKind::ring;
    }
    if (root_.has("pipeline") && root_.at("pipeline").has("stages") &&
        root_.at("pipeline").at("stages").is_number())
      find(Severity::trap, "pipeline-stages-ignored", "pipeline.stages",
           "the engine does not read it",
           "PipelineModule(num_stages=...) decides; say pp in --strategy",
           "deepspeedai/DeepSpeed deepspeed/runtime/pipe/module.py");
    if (root_.has("aio") && root_.at("aio").has("thread_count"))
      find(Severity::trap, "thread-count-ignored", "aio.thread_count",
           "the key of older documents is ignored", "intra_op_parallelism",
           "deepspeedai/DeepSpeed deepspeed/runtime/swap_tensor/"
           "aio_config.py");
    check_checkpointing();
  }

  int positive_or_zero(const JsonView& view, const char* key) {
    const auto value = elements(view, key);
    return value ? static_cast<int>(std::min<std::int64_t>(*value, kMaxSize))
                 : 0;
  }

  void check_checkpointing() {
    if (!root_.has("activation_checkpointing")) return;
    const JsonView view = root_.at("activation_checkpointing");
    const bool contiguous =
        view.boolean_or("contiguous_memory_optimization", false);
    if (contiguous && (!view.boolean_or("partition_activations", false) ||
                       !view.has("number_checkpoints")))
      find(Severity::refused, "contiguous-checkpoints",
           "activation_checkpointing.contiguous_memory_optimization",
           "it needs partition_activations and number_checkpoints",
           "add both, or leave it out",
           "deepspeedai/DeepSpeed deepspeed/runtime/"
           "activation_checkpointing/checkpointing.py");
    if (view.boolean_or("partition_activations", false) &&
        c_.strategy.tensor == 1)
      find(
          Severity::trap, "partition-activations-alone",
          "activation_checkpointing.partition_activations",
          "without model parallelism there is nothing to partition",
          "remove it; gradient_checkpointing of the model is what saves memory",
          "deepspeedai/DeepSpeed deepspeed/runtime/"
          "activation_checkpointing/checkpointing.py");
  }

  void read_optimizer() {
    if (!root_.has("optimizer")) return;
    const JsonView view = root_.at("optimizer");
    std::string type = view.string_or("type", "");
    for (char& letter : type)
      if (letter >= 'A' && letter <= 'Z') letter += 'a' - 'A';
    struct Known {
      std::string_view name;
      OptimizerKind kind;
      bool one_bit;
    };
    constexpr std::array kKnown = {
        Known{"adam", OptimizerKind::adam, false},
        Known{"adamw", OptimizerKind::adam, false},
        Known{"fusedadam", OptimizerKind::adam, false},
        Known{"onebitadam", OptimizerKind::adam, true},
        Known{"zerooneadam", OptimizerKind::adam, true},
        Known{"lamb", OptimizerKind::lamb, false},
        Known{"onebitlamb", OptimizerKind::lamb, true},
        Known{"lion", OptimizerKind::lion, false},
        Known{"adagrad", OptimizerKind::adagrad, false},
        Known{"muon", OptimizerKind::muon, false},
        Known{"sgd", OptimizerKind::sgd, false}};
    for (const Known& known : kKnown) {
      if (type != known.name) continue;
      c_.optimizer = known.kind;
      if (known.one_bit) c_.strategy.tuning.compression = Compression::one_bit;
    }
    if (!view.has("params")) return;
    const JsonView params = view.at("params");
    if (params.has("max_grad_norm"))
      find(Severity::refused, "max-grad-norm", "optimizer.params.max_grad_norm",
           "it is refused", "gradient_clipping at the top level",
           "deepspeedai/DeepSpeed deepspeed/runtime/engine.py");
    if (c_.optimizer == OptimizerKind::sgd && params.has("momentum") &&
        params.at("momentum").is_number() && params.at("momentum").number() > 0)
      c_.optimizer = OptimizerKind::momentum;
  }

  void read_batch() {
    c_.global_batch = positive(root_, "train_batch_size");
    c_.micro_batch = positive(root_, "train_micro_batch_size_per_gpu");
    c_.accumulation = positive(root_, "gradient_accumulation_steps");
    Strategy& s = c_.strategy;
    const std::int64_t cut =
        std::int64_t{s.tensor} * s.context * std::max(1, given_.pipeline);
    const auto ranks = static_cast<int>(given_.gpus / cut);
    if (c_.micro_batch) c_.strategy.micro_batch = *c_.micro_batch;
    if (!c_.global_batch && !c_.micro_batch && !uses_auto_)
      find(Severity::refused, "batch-missing", "train_micro_batch_size_per_gpu",
           "neither train_batch_size nor train_micro_batch_size_per_gpu is "
           "given",
           "add train_micro_batch_size_per_gpu", kConfig);
    close_batch_triangle("train_batch_size", ranks, given_.gpus, c_);
    if (c_.micro_batch) c_.strategy.micro_batch = *c_.micro_batch;
    if (uses_auto_)
      find(Severity::advice, "auto-values", "auto",
           "\"auto\" is filled in by the Hugging Face integrations; DeepSpeed "
           "alone fails on it at the top level",
           "start through Trainer or accelerate, or write the values",
           "huggingface/transformers src/transformers/integrations/"
           "deepspeed.py");
  }

  void tell_unsaid() {
    c_.unsaid = {"pp", "ep", "recompute", "seq", "attention"};
    if (c_.strategy.tensor == 1) c_.unsaid.insert(c_.unsaid.begin(), "tp");
  }

  const JsonView& root_;
  bool uses_auto_ = false;
};

bool recognizes(std::string_view path, std::string_view text) {
  if (!path.ends_with(".json") && !path.ends_with(".hjson")) return false;
  for (const char* key :
       {"\"zero_optimization\"", "\"train_micro_batch_size_per_gpu\"",
        "\"train_batch_size\""})
    if (text.find(key) != std::string_view::npos) return true;
  return false;
}

}  // namespace

Configuration read_deepspeed(std::string_view path, std::string_view text,
                             const Given& given) {
  const JsonView root =
      JsonView::parse(without_comments(text), std::string(path));
  if (!root.is_object()) root.fail("expected an object");
  return Reader(root, given).read();
}

const FileFormat& deepspeed_format() {
  static constexpr FileFormat kFormat{"deepspeed", "deepspeed", recognizes,
                                      read_deepspeed, emit_deepspeed};
  return kFormat;
}

}  // namespace ztplan
