// Reads the keyword values of a Booster plugin; what its constructor refuses
// is a finding.
#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "interop/colossalai.h"
#include "interop/findings.h"
#include "interop/sharding.h"

namespace ztplan {
namespace {

constexpr const char* kPlugin =
    "hpcaitech/ColossalAI colossalai/booster/plugin/hybrid_parallel_plugin.py";

constexpr std::string_view kHybridKeys[] = {"tp_size",
                                            "pp_size",
                                            "sp_size",
                                            "ep_size",
                                            "precision",
                                            "zero_stage",
                                            "enable_all_optimization",
                                            "enable_fused_normalization",
                                            "enable_flash_attention",
                                            "enable_jit_fused",
                                            "enable_sequence_parallelism",
                                            "sequence_parallelism_mode",
                                            "parallel_output",
                                            "num_microbatches",
                                            "microbatch_size",
                                            "initial_scale",
                                            "min_scale",
                                            "growth_factor",
                                            "backoff_factor",
                                            "growth_interval",
                                            "hysteresis",
                                            "max_scale",
                                            "max_norm",
                                            "broadcast_buffers",
                                            "ddp_bucket_cap_mb",
                                            "find_unused_parameters",
                                            "check_reduction",
                                            "gradient_as_bucket_view",
                                            "static_graph",
                                            "zero_bucket_size_in_m",
                                            "cpu_offload",
                                            "communication_dtype",
                                            "overlap_communication",
                                            "overlap_allgather",
                                            "custom_policy",
                                            "pp_style",
                                            "num_model_chunks",
                                            "num_layers_per_stage",
                                            "gradient_checkpoint_config",
                                            "enable_metadata_cache",
                                            "make_vocab_size_divisible_by",
                                            "dp_outside",
                                            "moe_dp_outside",
                                            "overlap_p2p",
                                            "overlap_allgather",
                                            "fp8_communication",
                                            "use_fp8",
                                            "inner_ring_size",
                                            "scheduler_nodes"};
constexpr std::string_view kGeminiKeys[] = {"placement_policy",
                                            "shard_param_frac",
                                            "offload_optim_frac",
                                            "offload_param_frac",
                                            "warmup_non_model_data_ratio",
                                            "steady_cuda_cap_ratio",
                                            "enable_gradient_accumulation",
                                            "max_prefetch",
                                            "precision",
                                            "master_weights",
                                            "pin_memory",
                                            "search_range_m",
                                            "hidden_dim",
                                            "min_chunk_size_m",
                                            "gpu_margin_mem_ratio",
                                            "tp_size",
                                            "extra_dp_size",
                                            "enable_sequence_parallelism",
                                            "enable_async_reduce",
                                            "max_norm",
                                            "strict_ddp_mode",
                                            "chunk_config_dict",
                                            "chunk_init_device",
                                            "enable_all_optimization",
                                            "enable_fused_normalization",
                                            "enable_flash_attention",
                                            "enable_jit_fused",
                                            "initial_scale",
                                            "min_scale",
                                            "growth_factor",
                                            "backoff_factor",
                                            "growth_interval",
                                            "hysteresis",
                                            "max_scale",
                                            "norm_type",
                                            "use_fp8",
                                            "fp8_communication"};

int size_or(const JsonView& view, std::string_view key, int missing) {
  return view.has(key) ? view.at(key).small_integer(1, kMaxSize) : missing;
}

constexpr std::string_view kLowLevelKeys[] = {"stage",
                                              "precision",
                                              "initial_scale",
                                              "min_scale",
                                              "growth_factor",
                                              "backoff_factor",
                                              "growth_interval",
                                              "hysteresis",
                                              "max_scale",
                                              "max_norm",
                                              "norm_type",
                                              "reduce_bucket_size_in_m",
                                              "communication_dtype",
                                              "overlap_communication",
                                              "overlap_allgather",
                                              "cpu_offload",
                                              "master_weights",
                                              "verbose",
                                              "cast_inputs",
                                              "extra_dp_size",
                                              "fp8_communication",
                                              "use_fp8"};

double share_or(const JsonView& view, std::string_view key) {
  return view.has(key) ? view.at(key).number() : 0;
}

void read_gemini(const JsonView& view, const Given& given, Configuration& c) {
  Strategy& s = c.strategy;
  s.zero = 3;
  s.tensor = size_or(view, "tp_size", 1);
  s.data = ranks_left(given.gpus, s);
  const int extra = size_or(view, "extra_dp_size", 1);
  if (extra > 1) s.shard_group = std::max(1, s.data / extra);
  s.sequence_parallel =
      s.tensor > 1 && view.boolean_or("enable_sequence_parallelism", false);
  if (share_or(view, "offload_optim_frac") > 0)
    s.offload.optimizer = OffloadTier::cpu;
  if (share_or(view, "offload_param_frac") > 0)
    s.offload.parameters = OffloadTier::cpu;
}

void read_sequence(const JsonView& view, Strategy& s) {
  if (!view.boolean_or("enable_sequence_parallelism", false)) return;
  const std::string mode =
      view.string_or("sequence_parallelism_mode", "all_to_all");
  if (mode == "split_gather" || mode == "ring") {
    s.sequence_parallel = s.tensor > 1;
    return;
  }
  s.context = size_or(view, "sp_size", 1);
  if (mode == "all_to_all" && s.context > 1)
    s.context_kind = ContextKind::ulysses;
}

Precision dtype(const JsonView& value) {
  const std::string text = value.string();
  for (const std::string_view start : {"", "torch."}) {
    const auto is = [&](std::string_view name) {
      return text == std::string(start) + std::string(name);
    };
    if (is("float32")) return Precision::fp32;
    if (is("float16")) return Precision::fp16;
    if (is("bfloat16")) return Precision::bf16;
  }
  value.fail("expected float32, float16 or bfloat16");
}

/// What LowLevelZero is told, alike by both plugins that use it.
void read_states(const JsonView& view, const char* bucket, Strategy& s) {
  if (view.has("overlap_communication") && s.expert == 1)
    s.tuning.overlap = view.at("overlap_communication").boolean();
  if (view.has(bucket))
    s.tuning.bucket =
        view.at(bucket).small_integer(1, kMaxSize) * kColossalBucketUnit;
  if (view.has("communication_dtype"))
    s.tuning.communication = dtype(view.at("communication_dtype"));
  if (view.boolean_or("fp8_communication", false))
    s.tuning.communication = Precision::fp8;
  if (view.boolean_or("cpu_offload", false))
    s.offload.optimizer = OffloadTier::cpu;
}

void read_low_level(const JsonView& view, const Given& given,
                    Configuration& c) {
  constexpr int kHighest = 2;
  Strategy& s = c.strategy;
  s.data = ranks_left(given.gpus, s);
  s.zero = view.has("stage") ? view.at("stage").small_integer(1, kHighest) : 1;
  const int extra = size_or(view, "extra_dp_size", 1);
  if (extra > 1) s.shard_group = std::max(1, s.data / extra);
  read_states(view, "reduce_bucket_size_in_m", s);
  if (view.boolean_or("use_fp8", false))
    c.findings.push_back(
        {Severity::trap, "low-level-fp8", "arguments.use_fp8",
         "LowLevelZeroPlugin in fp8 stops: \"shape is invalid for input\"",
         "HybridParallelPlugin with zero_stage, or use_fp8 false",
         "hpcaitech/ColossalAI#6387"});
  c.unsaid.emplace_back("attention");
}

void read_hybrid(const JsonView& view, const Given& given, Configuration& c) {
  Strategy& s = c.strategy;
  s.tensor = size_or(view, "tp_size", 1);
  s.pipeline = size_or(view, "pp_size", 1);
  s.expert = size_or(view, "ep_size", 1);
  read_sequence(view, s);
  s.data = ranks_left(given.gpus, s);
  constexpr int kHighest = 2;
  if (view.has("zero_stage"))
    s.zero = view.at("zero_stage").small_integer(0, kHighest);
  read_states(view, "zero_bucket_size_in_m", s);
  if (view.string_or("pp_style", "1f1b") == "interleaved") {
    s.schedule = Schedule::interleaved;
    s.virtual_stages = size_or(view, "num_model_chunks", 2);
  }
  if (view.has("microbatch_size"))
    c.micro_batch = size_or(view, "microbatch_size", 1);
  if (view.has("num_microbatches"))
    c.accumulation = size_or(view, "num_microbatches", 1);
  if (s.pipeline > 1 && !c.micro_batch && !c.accumulation)
    c.findings.push_back({Severity::refused, "microbatches-missing",
                          "arguments.num_microbatches",
                          "a pipeline needs num_microbatches or "
                          "microbatch_size",
                          "microbatch_size 1", kPlugin});
  c.attention = view.boolean_or("enable_flash_attention", false)
                    ? AttentionKernel::flash
                    : AttentionKernel::eager;
}

struct Plugin {
  std::string_view name;
  std::span<const std::string_view> keys;
  void (*read)(const JsonView& view, const Given& given, Configuration& c);
};
constexpr Plugin kPlugins[] = {
    {"HybridParallelPlugin", kHybridKeys, read_hybrid},
    {"MoeHybridParallelPlugin", kHybridKeys, read_hybrid},
    {"LowLevelZeroPlugin", kLowLevelKeys, read_low_level},
    {"GeminiPlugin", kGeminiKeys, read_gemini}};

const Plugin& plugin_of(const JsonView& name) {
  const std::string wanted = name.string();
  for (const Plugin& plugin : kPlugins)
    if (plugin.name == wanted) return plugin;
  name.fail(
      "expected HybridParallelPlugin, MoeHybridParallelPlugin, "
      "LowLevelZeroPlugin or GeminiPlugin");
}

}  // namespace

Configuration read_colossalai(std::string_view path, std::string_view text,
                              const Given& given) {
  const JsonView root = JsonView::parse(text, std::string(path));
  if (!root.is_object()) root.fail("expected an object");
  root.allow_only({"plugin", "arguments"});
  Configuration c;
  c.engine = &find_engine("colossalai");
  const Plugin& plugin = plugin_of(root.at("plugin"));
  const JsonView view = root.at("arguments");
  c.unsaid = {"seq", "recompute"};
  find_unknown(view.keys(), "arguments", plugin.keys,
               {Severity::refused, "raises TypeError", kPlugin}, c.findings);
  plugin.read(view, given, c);
  c.precision = parse_precision(view.string_or("precision", "fp16"));
  c.gradient = c.precision;
  if (view.boolean_or("use_fp8", false)) c.precision = Precision::fp8;
  close_batch_triangle("the batch", c.strategy.data, given.gpus, c);
  if (c.micro_batch) c.strategy.micro_batch = *c.micro_batch;
  return c;
}

}  // namespace ztplan
