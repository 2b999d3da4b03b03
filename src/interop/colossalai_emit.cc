// colossalai.json holds the keyword values of a Booster plugin, plugin.py
// builds it. Keywords: hpcaitech/ColossalAI v0.5.0, colossalai/booster/plugin.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "interop/colossalai.h"
#include "interop/formats.h"
#include "interop/launch.h"

namespace ztplan {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kProgram[] =
    R"(# Builds the plugin that colossalai.json describes: see README.md.
import json
from pathlib import Path

import torch
from colossalai.booster import Booster, plugin

PLAN = json.loads(Path(__file__).with_name("colossalai.json").read_text())


def booster():
    arguments = dict(PLAN["arguments"])
    dtype = arguments.get("communication_dtype")
    if dtype is not None:
        arguments["communication_dtype"] = getattr(torch, dtype)
    make = getattr(plugin, PLAN["plugin"])
    return Booster(plugin=make(**arguments))
)";

constexpr int kGeminiStage = 3;

const char* torch_dtype(Precision precision) {
  if (precision == Precision::fp32) return "float32";
  return precision == Precision::fp16 ? "float16" : "bfloat16";
}

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

/// What LowLevelZero is told, alike by both plugins that use it; the name of
/// the bucket is theirs.
void say_states(const Emission& e, const char* bucket, Json& arguments) {
  const Strategy& s = e.plan.strategy;
  const Tuning& t = s.tuning;
  if (s.zero > 0)
    arguments["overlap_communication"] =
        t.overlap.value_or(true) && s.expert == 1;
  if (t.bucket)
    arguments[bucket] =
        std::max<std::int64_t>(1, *t.bucket / kColossalBucketUnit);
  if (t.communication == Precision::fp8)
    arguments["fp8_communication"] = true;
  else if (t.communication)
    arguments["communication_dtype"] = torch_dtype(*t.communication);
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
  if (s.zero > 0) arguments["zero_stage"] = s.zero;
  say_states(e, "zero_bucket_size_in_m", arguments);
  arguments["enable_flash_attention"] = w.attention != AttentionKernel::eager;
  arguments["enable_fused_normalization"] = true;
  return {{"plugin",
           s.expert > 1 ? "MoeHybridParallelPlugin" : "HybridParallelPlugin"},
          {"arguments", arguments}};
}

/// ZeRO 1 and 2 of data parallelism alone. It fails in fp8 (issue 6387), where
/// HybridParallelPlugin runs: fp8 goes here only for shards, which that lacks.
bool is_low_level(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  const bool is_cut =
      s.tensor > 1 || s.pipeline > 1 || s.context > 1 || s.expert > 1;
  if (is_cut || s.zero == 0 || s.zero == kGeminiStage) return false;
  return s.shard_group > 0 || e.question.workload.precision != Precision::fp8;
}

Json low_level(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  const Workload& w = e.question.workload;
  Json arguments = {{"stage", s.zero}, {"precision", precision_name(w)}};
  if (w.precision == Precision::fp8) arguments["use_fp8"] = true;
  if (s.shard_group > 0) arguments["extra_dp_size"] = s.data / s.shard_group;
  say_states(e, "reduce_bucket_size_in_m", arguments);
  return {{"plugin", "LowLevelZeroPlugin"}, {"arguments", arguments}};
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
  if (is_low_level(e))
    keys.push_back(fmt::format("attention={}: attn_implementation of the model",
                               to_text(w.attention)));
  return keys;
}

Json plan_of(const Emission& e) {
  if (e.plan.strategy.zero == kGeminiStage) return gemini(e);
  return is_low_level(e) ? low_level(e) : hybrid(e);
}

bool recognizes(std::string_view path, std::string_view text) {
  return path.ends_with(".json") &&
         text.find("\"plugin\"") != std::string_view::npos;
}

}  // namespace

Emitted emit_colossalai(const Emission& e) {
  const Launch launch{
      .program = "\"${TRAIN:-train.py}\"",
      .arguments = {"\"$@\""},
      .note = "Colossal-AI 0.5 and a train.py that uses plugin.booster()"};
  return with_launch(
      e, launch,
      {{"colossalai.json", plan_of(e).dump(2) + "\n"}, {"plugin.py", kProgram}},
      unsaid(e));
}

const FileFormat& colossalai_format() {
  static constexpr FileFormat kFormat{"colossalai", "colossalai", recognizes,
                                      read_colossalai, emit_colossalai};
  return kFormat;
}

}  // namespace ztplan
