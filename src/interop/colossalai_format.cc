// colossalai.json holds the keyword values of a Booster plugin, plugin.py
// builds it. Keywords: hpcaitech/ColossalAI v0.5.0, colossalai/booster/plugin.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "interop/findings.h"
#include "interop/formats.h"
#include "interop/launch.h"
#include "interop/sharding.h"

namespace ztplan {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPlugin =
    "hpcaitech/ColossalAI colossalai/booster/plugin/hybrid_parallel_plugin.py";
constexpr std::int64_t kMega = 1 << 20;  // zero_bucket_size_in_m

constexpr char kProgram[] =
    R"(# Builds the plugin that colossalai.json describes: see README.md.
import json
from pathlib import Path

from colossalai.booster import Booster, plugin

PLAN = json.loads(Path(__file__).with_name("colossalai.json").read_text())


def booster():
    make = getattr(plugin, PLAN["plugin"])
    return Booster(plugin=make(**PLAN["arguments"]))
)";

void say_sequence(const Strategy& s, Json& arguments) {
  if (s.context > 1) {
    const bool ring = s.context_kind == ContextKind::ring;
    arguments["enable_sequence_parallelism"] = true;
    arguments["sequence_parallelism_mode"] = ring ? "ring_attn" : "all_to_all";
    arguments["sp_size"] = s.context;
    return;
  }
  if (!s.sequence_parallel) return;
  arguments["enable_sequence_parallelism"] = true;
  arguments["sequence_parallelism_mode"] = "split_gather";
}

void say_pipeline(const Emission& e, Json& arguments) {
  const Strategy& s = e.plan.strategy;
  if (s.pipeline == 1) return;
  const bool interleaved = s.schedule == Schedule::interleaved;
  arguments["pp_style"] = interleaved ? "interleaved" : "1f1b";
  if (interleaved) arguments["num_model_chunks"] = s.virtual_stages;
  arguments["microbatch_size"] = s.micro_batch;
  arguments["num_microbatches"] = micro_batches(s, e.question.workload);
}

void say_states(const Emission& e, Json& arguments) {
  const Strategy& s = e.plan.strategy;
  if (s.zero > 0) arguments["zero_stage"] = s.zero;
  if (s.zero > 0)
    arguments["overlap_communication"] =
        s.tuning.overlap.value_or(true) && s.expert == 1;
  if (s.tuning.bucket)
    arguments["zero_bucket_size_in_m"] =
        std::max<std::int64_t>(1, *s.tuning.bucket / kMega);
  if (s.offload.optimizer != OffloadTier::none) arguments["cpu_offload"] = true;
  arguments["max_norm"] = 1.0;
}

// use_fp8 comes on top of a 16-bit precision.
std::string_view precision_name(const Workload& workload) {
  return workload.precision == Precision::fp8 ? "bf16"
                                              : to_text(workload.precision);
}

Json hybrid(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  const Workload& w = e.question.workload;
  Json arguments = {{"tp_size", s.tensor}, {"pp_size", s.pipeline}};
  if (s.expert > 1) arguments["ep_size"] = s.expert;
  arguments["precision"] = precision_name(w);
  if (w.precision == Precision::fp8) arguments["use_fp8"] = true;
  say_sequence(s, arguments);
  say_pipeline(e, arguments);
  say_states(e, arguments);
  arguments["enable_flash_attention"] = w.attention != AttentionKernel::eager;
  arguments["enable_fused_normalization"] = true;
  return {{"plugin",
           s.expert > 1 ? "MoeHybridParallelPlugin" : "HybridParallelPlugin"},
          {"arguments", arguments}};
}

Json gemini(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  Json arguments = {{"placement_policy", "static"},
                    {"shard_param_frac", 1.0},
                    {"precision", precision_name(e.question.workload)},
                    {"tp_size", s.tensor},
                    {"max_norm", 1.0}};
  if (e.question.workload.precision == Precision::fp8)
    arguments["use_fp8"] = true;
  if (s.sequence_parallel) arguments["enable_sequence_parallelism"] = true;
  if (s.shard_group > 0)
    arguments["extra_dp_size"] = s.data * s.context / s.shard_group;
  if (s.offload.optimizer != OffloadTier::none)
    arguments["offload_optim_frac"] = 1.0;
  if (s.offload.parameters != OffloadTier::none)
    arguments["offload_param_frac"] = 1.0;
  if (micro_batches(s, e.question.workload) > 1)
    arguments["enable_gradient_accumulation"] = true;
  return {{"plugin", "GeminiPlugin"}, {"arguments", arguments}};
}

std::vector<std::string> unsaid(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  const Workload& w = e.question.workload;
  std::vector<std::string> keys = {
      fmt::format("seq={}: of the data loader", w.sequence)};
  if (s.pipeline == 1)
    keys.push_back(fmt::format("micro={}: of the data loader", s.micro_batch));
  if (s.recompute.mode != Recompute::Mode::none)
    keys.push_back(
        fmt::format("recompute={}: "
                    "model.gradient_checkpointing_enable()",
                    to_text(s.recompute)));
  if (!s.stage_layers.empty() || s.ends_as_layers)
    keys.emplace_back(
        "stages: num_layers_per_stage of a schedule of one's own");
  if (s.shard_group > 0 && s.zero != 3)
    keys.push_back(fmt::format("shard={}: LowLevelZeroPlugin(extra_dp_size={})",
                               s.shard_group,
                               s.data * s.context / s.shard_group));
  if (s.tuning.communication)
    keys.push_back(fmt::format("comm={}: communication_dtype, a torch.dtype",
                               to_text(*s.tuning.communication)));
  return keys;
}

Emitted emit(const Emission& e) {
  const Launch launch{
      .program = "\"${TRAIN:-train.py}\"",
      .arguments = {"\"$@\""},
      .note = "Colossal-AI 0.5 and a train.py that uses plugin.booster()"};
  const Json plan = e.plan.strategy.zero == 3 ? gemini(e) : hybrid(e);
  return with_launch(
      e, launch,
      {{"colossalai.json", plan.dump(2) + "\n"}, {"plugin.py", kProgram}},
      unsaid(e));
}

bool recognizes(std::string_view path, std::string_view text) {
  return path.ends_with(".json") &&
         text.find("\"plugin\"") != std::string_view::npos;
}

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
  if (view.has("overlap_communication") && s.expert == 1)
    s.tuning.overlap = view.at("overlap_communication").boolean();
  if (view.has("zero_bucket_size_in_m"))
    s.tuning.bucket =
        view.at("zero_bucket_size_in_m").small_integer(1, kMaxSize) * kMega;
  if (view.boolean_or("cpu_offload", false))
    s.offload.optimizer = OffloadTier::cpu;
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

Configuration read(std::string_view path, std::string_view text,
                   const Given& given) {
  const JsonView root = JsonView::parse(text, std::string(path));
  if (!root.is_object()) root.fail("expected an object");
  root.allow_only({"plugin", "arguments"});
  Configuration c;
  c.engine = &find_engine("colossalai");
  const std::string plugin = root.at("plugin").string();
  const JsonView view = root.at("arguments");
  const bool is_gemini = plugin == "GeminiPlugin";
  if (!is_gemini && plugin != "HybridParallelPlugin" &&
      plugin != "MoeHybridParallelPlugin")
    root.at("plugin").fail(
        "expected HybridParallelPlugin, MoeHybridParallelPlugin or "
        "GeminiPlugin");
  const UnknownKey refused{Severity::refused, "raises TypeError", kPlugin};
  if (is_gemini)
    find_unknown(view.keys(), "arguments", kGeminiKeys, refused, c.findings);
  else
    find_unknown(view.keys(), "arguments", kHybridKeys, refused, c.findings);
  if (is_gemini)
    read_gemini(view, given, c);
  else
    read_hybrid(view, given, c);
  c.precision = parse_precision(view.string_or("precision", "fp16"));
  c.gradient = c.precision;
  if (view.boolean_or("use_fp8", false)) c.precision = Precision::fp8;
  close_batch_triangle(c.strategy.data, given.gpus, c);
  if (c.micro_batch) c.strategy.micro_batch = *c.micro_batch;
  c.unsaid = {"seq", "recompute"};
  return c;
}

}  // namespace

const FileFormat& colossalai_format() {
  static constexpr FileFormat kFormat{"colossalai", "colossalai", recognizes,
                                      read, emit};
  return kFormat;
}

}  // namespace ztplan
