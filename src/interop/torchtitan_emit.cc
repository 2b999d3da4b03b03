// Keys: pytorch/torchtitan v0.2.2, torchtitan/config/job_config.py.
#include <fmt/format.h>

#include <algorithm>

#include "interop/formats.h"
#include "interop/launch.h"
#include "interop/sharding.h"
#include "interop/torchtitan.h"

namespace ztplan {
namespace {

const char* torch_dtype(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "float32";
    case Precision::fp16:
      return "float16";
    case Precision::bf16:
    case Precision::fp8:
    case Precision::fp4:
      return "bfloat16";
  }
  return "bfloat16";
}

std::string training(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  const Workload& w = e.question.workload;
  const int passes = micro_batches(s, w);
  const int local = s.pipeline > 1 ? s.micro_batch * passes : s.micro_batch;
  return fmt::format(
      "[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\n"
      "seq_len = {}\nmax_norm = 1.0\nsteps = 1000\ndtype = \"{}\"\n"
      "mixed_precision_param = \"{}\"\nmixed_precision_reduce = \"{}\"\n"
      "enable_cpu_offload = {}\n\n",
      local, w.global_batch, w.sequence,
      torch_dtype(w.parameter.value_or(Precision::fp32)),
      torch_dtype(w.precision),
      torch_dtype(s.tuning.communication.value_or(Precision::fp32)),
      s.offload.parameters != OffloadTier::none);
}

const char* schedule_name(const Strategy& s) {
  switch (s.schedule) {
    case Schedule::gpipe:
      return "GPipe";
    case Schedule::interleaved:
      return "Interleaved1F1B";
    case Schedule::zb_h1:
      return "InterleavedZeroBubble";
    case Schedule::zb_v:
      return "ZBVZeroBubble";
    case Schedule::dualpipe_v:
      return "DualPipeV";
    case Schedule::zb_h2:
    case Schedule::one_f_one_b:
      break;
  }
  return "1F1B";
}

std::string pipeline(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  if (s.pipeline == 1) return "";
  const int layers = layer_count(e.question.model);
  const int ends = s.ends_as_layers ? 1 : 0;
  const int stages = s.pipeline * s.virtual_stages;
  return fmt::format(
      "pipeline_parallel_schedule = \"{}\"\n"
      "pipeline_parallel_microbatch_size = {}\n"
      "pipeline_parallel_layers_per_stage = {}\n"
      "pipeline_parallel_first_stage_less_layers = {}\n"
      "pipeline_parallel_last_stage_less_layers = {}\n",
      schedule_name(s), s.micro_batch, divide_up(layers + 2 * ends, stages),
      ends, ends);
}

std::string parallelism(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  const Mesh mesh = mesh_of(s);
  std::string text = fmt::format(
      "[parallelism]\ndata_parallel_replicate_degree = {}\n"
      "data_parallel_shard_degree = {}\nfsdp_reshard_after_forward = \"{}\"\n"
      "tensor_parallel_degree = {}\npipeline_parallel_degree = {}\n"
      "context_parallel_degree = {}\n",
      mesh.replicate, mesh.shard, s.zero == 3 ? "default" : "never", s.tensor,
      s.pipeline, s.context);
  if (s.expert > 1)
    text += fmt::format("expert_parallel_degree = {}\n", s.expert);
  return text + pipeline(e) + "\n";
}

std::string checkpointing(const Strategy& s) {
  const Recompute& r = s.recompute;
  if (r.mode == Recompute::Mode::none)
    return "[activation_checkpoint]\nmode = \"none\"\n\n";
  if (r.mode == Recompute::Mode::full)
    return "[activation_checkpoint]\nmode = \"full\"\n\n";
  return "[activation_checkpoint]\nmode = \"selective\"\n"
         "selective_ac_option = \"op\"\n\n";
}

std::string fp8(const Workload& w) {
  if (w.precision != Precision::fp8) return "";
  return "[quantize.linear.float8]\nenable_fsdp_float8_all_gather = true\n"
         "precompute_float8_dynamic_scale_for_fsdp = true\n"
         "filter_fqns = [\"output\"]\n\n";
}

std::string config(const Emission& e) {
  const Workload& w = e.question.workload;
  return fmt::format(
             "[job]\ndump_folder = \"./outputs\"\ndescription = \"{}\"\n\n"
             "[model]\n# The nearest of torchtitan's models; its flavor must "
             "have the shape of {}.\n"
             "name = \"llama3\"\nflavor = \"8B\"\nconverters = [{}]\n\n"
             "[optimizer]\nname = \"AdamW\"\nlr = 1e-4\n\n",
             to_text(e.plan.strategy), e.question.model.name,
             w.precision == Precision::fp8 ? "\"float8\"" : "") +
         training(e) + parallelism(e) + checkpointing(e.plan.strategy) +
         fp8(w) + "[compile]\nenable = false\n";
}

std::vector<std::string> unsaid(const Emission& e) {
  const Strategy& s = e.plan.strategy;
  std::vector<std::string> keys = {
      "model: name and flavor are torchtitan's own"};
  if (s.recompute.mode == Recompute::Mode::selective && !s.recompute.op)
    keys.push_back(
        fmt::format("recompute={}: \"op\" is nearest", to_text(s.recompute)));
  if (s.recompute.layers > 0)
    keys.push_back(fmt::format("recompute={}: every layer is recomputed",
                               to_text(s.recompute)));
  if (!s.stage_layers.empty())
    keys.emplace_back("stages=: give module_fqns_per_model_part");
  if (e.question.workload.adapters.any()) keys.emplace_back("lora");
  return keys;
}

bool recognizes(std::string_view path, std::string_view text) {
  return path.ends_with(".toml") &&
         (text.find("[parallelism]") != std::string_view::npos ||
          text.find("[training]") != std::string_view::npos);
}

}  // namespace

Emitted emit_torchtitan(const Emission& e) {
  const Launch launch{
      .program = "-m torchtitan.train",
      .arguments = {"--job.config_file train.toml", "\"$@\""},
      .environment = {{"PYTORCH_ALLOC_CONF", "expandable_segments:True"}},
      .note = "torchtitan 0.2.2 (later ones take Python, not TOML)"};
  return with_launch(e, launch, {{"train.toml", config(e)}}, unsaid(e));
}

const FileFormat& torchtitan_format() {
  static constexpr FileFormat kFormat{"torchtitan", "fsdp", recognizes,
                                      read_torchtitan, emit_torchtitan};
  return kFormat;
}

}  // namespace ztplan
