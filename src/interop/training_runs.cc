#include "interop/training_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "interop/run_adapters.h"
#include "interop/run_cells.h"
#include "interop/run_inputs.h"
#include "interop/run_machine.h"
#include "interop/run_model.h"
#include "interop/run_strategy.h"
#include "search/evaluate.h"
#include "search/interval.h"
#include "spec/catalog.h"
#include "strategy/engine_memory.h"
#include "strategy/engines/rules.h"
#include "strategy/stages.h"

namespace ztplan {
namespace {

// What a source does not repeat in every row.
struct SourceFacts {
  std::string_view source;
  std::string_view framework;       // of hardware/frameworks
  std::string_view network = "";    // of its nodes, when not the usual one
  std::string_view recompute = "";  // in its own recipes
  Loading loading = Loading::partitioned;
  bool compares_software = false;  // its notes open with what ran
  Lengths lengths = Lengths::equal;
  int zero = 0;                // of its own scripts, where all is trained
  bool narrow_states = false;  // and weights with their states are in bf16
};
// Jean Zay joins its nodes with four Omni-Path links of 100 Gb/s
// (bigscience-workshop/bigscience, README.md); fms-fsdp states 400 Gb/s a node
// (README.md); VIA-Research/vTrain four HDR ports of 200 Gb/s; InternEvo 4 x
// 100 Gb/s (doc/en/train_performance.md). Recipes of torchtune set
// enable_activation_checkpointing; litgpt's FSDP strategy checkpoints every
// block and shards what each rank has read whole (finetune/lora.py). ms-swift
// and litgpt train on samples as they come; PEFT's comparison does too, but
// empties the allocator's cache between steps. Scripts that train all weights:
// QwenLM/Qwen finetune/finetune_ds.sh (ds_config_zero3.json); ms-swift
// swift/llm/utils/argument.py, select_dtype (a model is loaded in bf16, which
// its optimizer keeps); NeMo Automodel examples/llm_benchmark
// (torch_dtype: bf16, torch.optim.Adam; models without experts with
// activation_checkpointing).
constexpr std::array kSources = {
    SourceFacts{"bigscience-176b", "megatron-deepspeed", "4x100Gbps"},
    SourceFacts{"bigscience-v100", "megatron-deepspeed", "4x100Gbps"},
    SourceFacts{"paper-megatron-2021", "megatron-2021"},
    SourceFacts{"paper-seqparallel-2022", "megatron-2021"},
    SourceFacts{"paper-mtnlg-2022", "megatron-2021"},
    SourceFacts{"dlperf", "megatron-2021"},
    SourceFacts{"VIA-Research/vTrain", "megatron-2021", "4x200Gbps"},
    SourceFacts{"deepspeed", "megatron-2021"},
    SourceFacts{"deepspeed-autotuning", "transformers-eager"},
    SourceFacts{.source = "paper-megascale-2024",
                .framework = "megatron-core",
                .compares_software = true},
    SourceFacts{.source = "megatron-bridge",
                .framework = "megatron-core",
                .compares_software = true},
    SourceFacts{"megatron-bridge-cards", "megatron-core"},
    SourceFacts{"megatron-bridge-skills", "megatron-core"},
    SourceFacts{"megatron-golden", "megatron-core"},
    SourceFacts{"nemo-h100-fp8", "nemo-2024"},
    SourceFacts{"google-gpu-recipes", "megatron-core"},
    SourceFacts{"primus-pipeline", "megatron-core"},
    SourceFacts{"llm-foundry", "llm-foundry"},
    SourceFacts{"torchtitan", "torchtitan"},
    SourceFacts{"torchao", "torchtitan"},
    SourceFacts{"fms-fsdp", "torchtitan"},
    SourceFacts{"torchtune", "torchtune", "", "full"},
    SourceFacts{.source = "nemo-automodel",
                .framework = "fsdp",
                .recompute = "full",
                .narrow_states = true},
    SourceFacts{
        .source = "qwen-finetune", .framework = "transformers", .zero = 3},
    SourceFacts{.source = "ms-swift",
                .framework = "transformers",
                .lengths = Lengths::varied,
                .narrow_states = true},
    SourceFacts{"hf-peft", "transformers"},
    SourceFacts{.source = "litgpt",
                .framework = "fsdp",
                .recompute = "full",
                .loading = Loading::replicated,
                .lengths = Lengths::varied},
    SourceFacts{"internevo", "internevo", "4x100Gbps"},
    SourceFacts{"xtuner", "fsdp"},
};

SourceFacts facts_of(std::string_view source) {
  // A key may be followed by the file and revision that was read.
  const std::string_view key = source.substr(0, source.find(' '));
  const auto found = std::ranges::find(kSources, key, &SourceFacts::source);
  return found == kSources.end() ? SourceFacts{source, "native"} : *found;
}

/// The version of a row, where a source has several.
std::string_view version_of(const CsvRow& row, const SourceFacts& facts) {
  // xtuner's page compares itself with Megatron-LM patched by PAI.
  if (notes_say(row, "Megatron (Pai patch)")) return "megatron-core";
  if (facts.source == "paper-megascale-2024")
    return folded(row.get("notes")).starts_with("megatron-lm")
               ? "megatron-2023"
               : facts.framework;
  if (facts.framework == "megatron-core") {
    // A container of 2026 by its month; the recipes of 2025 are Megatron
    // Core's.
    const int month = noted_number(row, "nemo container 26.").value_or(0);
    constexpr int kFused = 6;
    if (month == 0) return facts.framework;
    return month < kFused ? "megatron-bridge-26.02" : "megatron-bridge-26.06";
  }
  if (facts.framework != "torchtitan") return facts.framework;
  if (notes_say(row, " eager;")) return "fsdp";
  const bool is_later =
      notes_say(row, "llama3-8b_h200_202506") || notes_say(row, "mi300x table");
  return is_later ? "torchtitan-2025" : "torchtitan";
}

ClusterSpec cluster_of(const CsvRow& row, const SourceFacts& facts,
                       int devices) {
  ClusterOverrides overrides;
  overrides.network = std::string(facts.network);
  const int per_node =
      whole_cell(row, "gpus_per_node", kMostRunDevices).value_or(0);
  if (devices > per_node) overrides.gpus_per_node = per_node;
  return machine_of_run(row, overrides, devices);
}

/// What its source's recipes recompute where the row does not say.
std::string_view usual_recompute(const SourceFacts& facts,
                                 const ModelSpec& model) {
  const bool keeps_experts = facts.source == "nemo-automodel";
  return keeps_experts && has_experts(model) ? "" : facts.recompute;
}

void keep_narrow_states(Workload& workload) {
  workload.parameter = workload.moments = workload.gradient = Precision::bf16;
}

/// What its source's own scripts set where all weights are trained.
void set_usual_states(const CsvRow& row, const SourceFacts& facts,
                      TrainingRun& run) {
  Workload& workload = run.question.workload;
  if (workload.adapters.any()) return;
  if (facts.narrow_states) keep_narrow_states(workload);
  const bool is_silent =
      folded(row.get("zero_stage")).empty() && folded(row.get("fsdp")).empty();
  if (is_silent && devices(run.strategy) > 1)
    run.strategy.zero = std::max(run.strategy.zero, facts.zero);
}

/// What the notes alone say. The ladder of torchtune's README adds one thing
/// after another, that of its loss fourth. QwenLM/Qwen finetune/
/// finetune_qlora_single_gpu.sh trains in fp16 under DeepSpeed, not autocast.
void read_notes(const CsvRow& row, Workload& workload) {
  if (notes_say(row, "bf16 weights and optimizer states"))
    keep_narrow_states(workload);
  for (const char* even : {"balance forced", "forced expert balance"})
    if (notes_say(row, even)) workload.routing = Routing::forced;
  if (notes_say(row, "liger")) workload.loss = LossKernel::fused_linear;
  for (const char* before : {"\"baseline", "\"+packed", "\"+torch.compile"})
    if (notes_say(row, before)) workload.loss = LossKernel::eager;
  if (row.get("source") == "qwen-finetune" &&
      workload.quantize != Quantize::none)
    workload.loss = LossKernel::uncast;
}

bool is_latent(const ModelSpec& model) {
  return std::ranges::any_of(model.layers, [](const LayerGroup& group) {
    return group.layer.attention.is_latent();
  });
}

/// Blocks of Hopper; what a release calls finer-grained is MXFP8 elsewhere.
bool scales_blocks(const CsvRow& row, const DeviceSpec& device) {
  const std::string precision = folded(row.get("precision"));
  return says(precision, "blockwise") ||
         (says(precision, "finer-grained") && device.architecture == "Hopper");
}

/// Recipes of Megatron Bridge, also where no release is named: gradients in
/// bf16, fp8 weights unless they are scaled by block, and moments in bf16 for
/// DeepSeek-V3 and its likes (NVIDIA-NeMo/Megatron-Bridge
/// scripts/performance/configs, training/mixed_precision.py fp8_param_gather,
/// recipes/deepseek).
void set_bridge_recipe(const CsvRow& row, const ModelSpec& model,
                       const DeviceSpec& device, Workload& workload) {
  workload.gradient = Precision::bf16;
  const bool is_stored =
      !workload.adapters.any() && !scales_blocks(row, device);
  if (workload.precision == Precision::fp8 && is_stored)
    workload.parameter = Precision::fp8;
  if (is_latent(model)) workload.moments = Precision::bf16;
}

/// Recipes of latent attention recompute its up-projections, where a row does
/// not say, except on GB300 from 26.06 on: scripts/performance/
/// configs/deepseek, kimi (workload_base_configs.py, recompute_modules).
void set_bridge_recompute(const CsvRow& row, TrainingRun& run) {
  const Question& q = run.question;
  if (!folded(row.get("recompute")).empty() || !is_latent(q.model)) return;
  if (q.workload.framework.fused_experts && q.cluster.device.id == "gb300")
    return;
  run.strategy.recompute.mode = Recompute::Mode::selective;
  run.strategy.recompute.mla_up_proj = true;
}

/// Stages that count the ends as layers, as a list: PipelineModule's
/// "type:transformer|embedding" of Megatron-DeepSpeed.
void list_stages(Strategy& strategy, int layers, const SourceFacts& facts) {
  if (!strategy.ends_as_layers || facts.framework != "megatron-deepspeed")
    return;
  strategy.stage_layers = chunk_layers(layers, strategy);
  strategy.ends_as_layers = false;
}

std::vector<const Engine*> engines_of(const Framework& framework) {
  std::vector<const Engine*> all(engines().begin(), engines().end());
  std::stable_partition(all.begin(), all.end(), [&](const Engine* engine) {
    return engine->name == framework.engine;
  });
  return all;
}

std::optional<Seconds> measured_step(const CsvRow& row,
                                     const Workload& workload, int devices) {
  if (const auto step = number_cell(row, "measured_step_s")) {
    return Seconds{*step};
  }
  const auto rate = number_cell(row, "measured_tokens_per_s_per_gpu");
  if (!rate || folded(row.get("global_batch")).empty()) return std::nullopt;
  const double tokens =
      static_cast<double>(workload.global_batch) * workload.sequence;
  return Seconds{tokens / (*rate * devices)};
}

// The figures are GiB where a source says so and where torch counts; where it
// says GB without more, GiB is likelier than 10^9.
std::optional<Bytes> measured_peak(const CsvRow& row) {
  const auto gib = number_cell(row, "measured_peak_mem_gb");
  if (!gib) return std::nullopt;
  constexpr double kMostGib = 1e6;
  if (*gib > kMostGib) throw Skip("measured_peak_mem_gb is absurd");
  return Bytes{static_cast<std::int64_t>(*gib * static_cast<double>(kGiB))};
}

Meter meter_of(const CsvRow& row) {
  if (notes_say(row, "nvidia-smi") || notes_say(row, "peak device memory")) {
    return Meter::driver;
  }
  if (notes_say(row, "max_memory_allocated") || notes_say(row, "peak active")) {
    return Meter::allocated;
  }
  return Meter::reserved;
}

void check_kind(const CsvRow& row) {
  if (notes_say(row, "SUSPICIOUS") || notes_say(row, "INCONSISTENT")) {
    throw Skip("its source's figures contradict each other");
  }
  if (notes_say(row, "(unpacked)"))
    throw Skip("how long its sequences are is not stated");
}

/// "OOM" as a remark of its own: BLOOM is none, "close to OOM" neither.
bool says_it_ran_out(const CsvRow& row) {
  return notes_say(row, "; OOM") || folded(row.get("notes")).starts_with("oom");
}

void check_measured(const TrainingRun& run) {
  if (run.step || run.peak || run.ran_out) return;
  throw Skip("nothing comparable was measured");
}

Bytes shown_by(Meter meter, const MemoryBreakdown& memory) {
  if (meter == Meter::allocated) return memory.allocated;
  return meter == Meter::driver ? driver_shown(memory) : reserved(memory);
}

/// The stage of `plan` that the row's figure is of.
const MemoryBreakdown& shown_stage(const TrainingRun& run, const Plan& plan) {
  if (run.last_stage) return plan.stages.back();
  return *std::ranges::max_element(
      plan.stages, {},
      [&](const MemoryBreakdown& stage) { return shown_by(run.meter, stage); });
}

/// Of a device before its first step, as the driver shows it, where every rank
/// reads all weights; nothing elsewhere.
Bytes taken_by_loading(const Question& q, const Plan& plan,
                       const MemoryBreakdown& stage) {
  if (q.workload.loading != Loading::replicated) return {};
  const Setting setting{q.model, q.cluster, q.workload};
  const LayerKinds kinds = layer_kinds(q.model);
  const StageShape shape =
      stage_shapes(kinds, plan.strategy)[static_cast<std::size_t>(stage.stage)];
  const StageSizes sizes =
      stage_sizes(setting, *plan.engine, kinds, plan.strategy);
  return load_peak(setting, *plan.engine, stage_share(setting, sizes, shape),
                   plan.strategy)
      .device;
}

/// What a meter shows that was read over a whole run: its steps, and `loading`
/// before them.
Bytes shown_over_run(Meter meter, const MemoryBreakdown& stage, Bytes loading) {
  const Bytes outside = driver_shown(stage) - reserved(stage);
  return std::max(shown_by(meter, stage),
                  meter == Meter::driver ? loading : loading - outside);
}

const Engine& engine_of(const TrainingRun& run) {
  const Engine* engine = engine_for(run.question, run.strategy);
  if (engine != nullptr) return *engine;
  const Setting setting{run.question.model, run.question.cluster,
                        run.question.workload};
  const auto misfit =
      why_illegal(*run.question.engines.front(), setting, run.strategy);
  throw Skip(fmt::format("illegal: rule {}", misfit ? misfit->rule : "?"));
}

RunResult predict(const CsvRow& row, const std::vector<ModelSpec>& known) {
  RunResult result;
  result.id = row.get("id");
  if (result.id.empty()) result.id = fmt::format("line {}", row.line());
  result.source = row.get("source");
  try {
    const TrainingRun run = read_run(row, known);
    const Engine& engine = engine_of(run);
    const Plan plan = evaluate(run.question, engine, run.strategy);
    result.engine = engine.name;
    result.strategy = to_text(run.strategy);
    result.framework = run.question.workload.framework.id;
    result.cluster = run.question.cluster.name;
    if (run.states_layout) result.question = question_text(run);
    result.inputs = inputs_of_run(run);
    result.ran_out = run.ran_out;
    result.measured_step = run.step;
    result.measured_peak = run.peak;
    result.predicted_step = plan.time.total();
    result.low_step = plan.low;
    result.high_step = plan.high;
    const MemoryBreakdown& stage = shown_stage(run, plan);
    const Bytes loading = taken_by_loading(run.question, plan, stage);
    result.fit = loading > plan.capacity ? Fit::does_not_fit
                                         : fit_of(run.question, plan);
    result.predicted_peak = shown_over_run(run.meter, stage, loading);
    const PeakInterval peak = peak_interval(
        *result.predicted_peak,
        run.names_meter ? std::optional(run.meter) : std::nullopt);
    result.low_peak = peak.low;
    result.high_peak = peak.high;
  } catch (const Skip& skip) {
    result.skipped = skip.what();
  }
  return result;
}

}  // namespace

void check_columns(const CsvTable& table) {
  std::vector<std::string_view> missing;
  for (const std::string_view column : {"model", "gpu", "gpus"}) {
    if (!table.has(column)) missing.push_back(column);
  }
  const bool measured = table.has("measured_step_s") ||
                        table.has("measured_tokens_per_s_per_gpu") ||
                        table.has("measured_peak_mem_gb");
  if (!measured) missing.push_back("measured_step_s or measured_peak_mem_gb");
  if (missing.empty()) return;
  throw Error(
      fmt::format("the table has no column {}", fmt::join(missing, ", ")),
      "its columns are those of training_runs.csv");
}

TrainingRun read_run(const CsvRow& row, const std::vector<ModelSpec>& known) {
  check_cells(row);
  check_kind(row);
  const SourceFacts facts = facts_of(row.get("source"));
  TrainingRun run;
  run.question.model = model_of_run(row, known);
  run.strategy = strategy_of_run(row, layer_count(run.question.model),
                                 usual_recompute(facts, run.question.model));
  list_stages(run.strategy, layer_count(run.question.model), facts);
  const int used = devices(run.strategy);
  run.question.cluster = cluster_of(row, facts, used);
  const Framework framework = load_framework(version_of(row, facts));
  run.question.calibration =
      calibration_for(run.question.cluster.device, framework);
  run.question.workload =
      workload_of_run(row, run.strategy, run.question.model.sequence,
                      framework.fused_attention ? AttentionKernel::flash
                                                : AttentionKernel::eager);
  run.question.engines = engines_of(framework);
  Workload& workload = run.question.workload;
  workload.framework = framework;
  workload.engine = run.question.engines.front()->name;
  workload.adapters = adapters_of_run(row);
  workload.quantize = quantize_of_run(row);
  workload.gradient = default_gradient(*run.question.engines.front()->memory,
                                       framework, workload.precision);
  workload.loading = facts.loading;
  workload.lengths = facts.lengths;
  set_usual_states(row, facts, run);
  if (is_of_megatron_bridge(row)) {
    set_bridge_recipe(row, run.question.model, run.question.cluster.device,
                      workload);
    set_bridge_recompute(row, run);
  }
  read_notes(row, workload);
  run.step = measured_step(row, run.question.workload, used);
  run.peak = measured_peak(row);
  run.meter = meter_of(row);
  run.names_meter = run.meter != Meter::reserved || notes_say(row, "reserved");
  run.last_stage = notes_say(row, "(last) rank");
  run.states_layout = !folded(row.get("micro_batch")).empty();
  run.variant = row.get("precision");
  if (facts.compares_software) {
    const std::string_view notes = row.get("notes");
    run.variant += notes.substr(0, notes.find(';'));
  }
  run.ran_out = !run.step && !run.peak && says_it_ran_out(row);
  check_measured(run);
  return run;
}

std::vector<RunResult> predict_runs(
    const CsvTable& table, const std::function<void(std::int64_t)>& progress) {
  check_columns(table);
  const std::vector<ModelSpec> known = all_models();
  std::vector<RunResult> results;
  for (std::size_t i = 0; i < table.size(); ++i) {
    results.push_back(predict(table[i], known));
    progress(static_cast<std::int64_t>(results.size()));
  }
  return results;
}

}  // namespace ztplan
