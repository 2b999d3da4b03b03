// DeepSpeed 0.19. ZeRO 0 is its data parallelism, a shard group under ZeRO 3 is
// MiCS; tensor is AutoTP, context with Ulysses its sequence parallelism, a
// pipeline its PipelineModule.
#include <fmt/format.h>

#include "strategy/engine_memory.h"
#include "strategy/engines/engines.h"
#include "strategy/engines/rules.h"

namespace ztplan {
namespace {

constexpr int kShardedGradients = 2, kShardedParameters = 3;

bool pipeline_zero_broken(const Setting&, const Strategy& s) {
  return s.pipeline > 1 && s.zero >= kShardedGradients;
}
Misfit explain_pipeline_zero(const Setting&, const Strategy& s) {
  return because(
      fmt::format("DeepSpeed's pipeline adds up gradients over several passes, "
                  "which zero={} partitions away: pp is {}",
                  s.zero, s.pipeline),
      fmt::format("zero 0 or 1 with pp {}, or zero {} with pp 1 and more tp; "
                  "engine fsdp allows both",
                  s.pipeline, s.zero));
}

bool schedule_broken(const Setting&, const Strategy& s) {
  return s.schedule != Schedule::one_f_one_b;
}
constexpr char kSchedule[] = "DeepSpeed's PipelineModule runs 1F1B alone";
constexpr char kScheduleNearest[] = "schedule=1f1b with vpp 1";

bool ends_broken(const Setting&, const Strategy& s) { return s.ends_as_layers; }
constexpr char kEnds[] =
    "stages=ends is Megatron-LM's way to count; PipelineModule cuts its list "
    "of layers by number or by parameters";
constexpr char kEndsNearest[] = "even stages, or stages= with a number each";

bool sequence_parallel_broken(const Setting&, const Strategy& s) {
  return s.sequence_parallel;
}
constexpr char kSequenceParallel[] =
    "sp=1 cuts norms and dropout as Megatron-LM does; DeepSpeed's AutoTP does "
    "not";
constexpr char kSequenceParallelNearest[] = "sp=0, or cp with cp_type=ulysses";

bool ring_broken(const Setting&, const Strategy& s) {
  return s.context > 1 && s.context_kind == ContextKind::ring;
}
constexpr char kRing[] = "DeepSpeed cuts sequences by Ulysses, not by a ring";
constexpr char kRingNearest[] = "cp_type=ulysses";

bool ulysses_alone_broken(const Setting&, const Strategy& s) {
  return s.context > 1 && (s.pipeline > 1 || s.tensor > 1);
}
Misfit explain_ulysses_alone(const Setting&, const Strategy& s) {
  return because(fmt::format("sequence parallelism over cp {} runs without a "
                             "pipeline and without AutoTP; pp is {}, tp {}",
                             s.context, s.pipeline, s.tensor),
                 "pp 1 and tp 1, or cp 1");
}

bool shard_broken(const Setting&, const Strategy& s) {
  return s.shard_group > 0 && s.zero != kShardedParameters;
}
constexpr char kShard[] = "a shard group is MiCS, which is of ZeRO stage 3";
constexpr char kShardNearest[] = "zero 3, or no shard";

bool mics_offload_broken(const Setting&, const Strategy& s) {
  return s.shard_group > 0 && s.offload.optimizer != OffloadTier::none;
}
constexpr char kMicsOffload[] =
    "MiCS does not reduce gradients that are offloaded";
constexpr char kMicsOffloadNearest[] = "offload none, or no shard";

bool zero_plus_plus_broken(const Setting&, const Strategy& s) {
  const Tuning& t = s.tuning;
  const bool asked = t.secondary > 0 || t.quantized_weights ||
                     t.compression == Compression::quantized;
  return asked && s.zero != kShardedParameters;
}
constexpr char kZeroPlusPlus[] =
    "ZeRO++ (hpz, qw, compress=quantized) is of ZeRO stage 3";
constexpr char kZeroPlusPlusNearest[] = "zero 3, or none of them";

bool secondary_broken(const Setting& g, const Strategy& s) {
  return s.tuning.secondary > 0 && g.cluster.devices % s.tuning.secondary != 0;
}
Misfit explain_secondary(const Setting& g, const Strategy& s) {
  return because(fmt::format("hpz {} does not divide the {} GPUs",
                             s.tuning.secondary, g.cluster.devices),
                 fmt::format("hpz {}", g.cluster.devices_per_node));
}

bool one_bit_broken(const Setting&, const Strategy& s) {
  return s.tuning.compression == Compression::one_bit && s.zero > 0;
}
constexpr char kOneBit[] =
    "1-bit Adam and LAMB keep whole states: they run without ZeRO";
constexpr char kOneBitNearest[] = "zero 0, or compress=none";

bool topk_broken(const Setting&, const Strategy& s) {
  return s.tuning.compression == Compression::topk;
}
constexpr char kTopk[] = "DeepSpeed has no top-k compression of gradients";
constexpr char kTopkNearest[] =
    "compress=onebit with zero 0, or compress=quantized with zero 3";

bool offload_broken(const Setting&, const Strategy& s) {
  return s.offload.optimizer != OffloadTier::none && s.zero == 0;
}
constexpr char kOffload[] = "optimizer states are offloaded by ZeRO";
constexpr char kOffloadNearest[] = "zero 1, 2 or 3";

bool nvme_broken(const Setting&, const Strategy& s) {
  return s.offload.optimizer == OffloadTier::nvme &&
         s.zero != kShardedParameters;
}
Misfit explain_nvme(const Setting&, const Strategy& s) {
  return because(
      fmt::format("below stage 3, device nvme silently behaves as cpu: zero "
                  "is {}",
                  s.zero),
      "zero 3, or offload=cpu");
}

bool offloaded_pipeline_broken(const Setting&, const Strategy& s) {
  return s.offload.optimizer != OffloadTier::none && s.pipeline > 1;
}
constexpr char kOffloadedPipeline[] =
    "DeepSpeed's pipeline steps its optimizer on the device";
constexpr char kOffloadedPipelineNearest[] = "offload none, or pp 1";

bool experts_broken(const Setting&, const Strategy& s) {
  return s.expert > 1 && s.zero == kShardedParameters;
}
Misfit explain_experts(const Setting&, const Strategy& s) {
  return because(
      fmt::format("ep {} with ZeRO 3: DeepSpeed's MoE layers support stages 0 "
                  "to 2",
                  s.expert),
      fmt::format("zero 2 with ep {}, or zero 3 with ep 1", s.expert));
}

bool fp8_broken(const Setting& g, const Strategy&) {
  return g.workload.precision == Precision::fp8;
}
constexpr char kFp8[] = "DeepSpeed's configuration has no fp8 training";
constexpr char kFp8Nearest[] = "precision bf16, or engine megatron";

bool modules_broken(const Setting&, const Strategy& s) {
  return s.recompute.mode == Recompute::Mode::selective;
}
constexpr char kModules[] =
    "activation checkpointing in DeepSpeed is of whole layers";
constexpr char kModulesNearest[] = "recompute=full, full:N or none";

/// bf16 with fp32 accumulation needs stage 1 and its BF16_Optimizer, or a
/// pipeline; stages 2 and 3 accumulate at stage 2 in the model's dtype.
bool gradient_broken(const Setting& g, const Strategy& s) {
  const bool is_wide = g.workload.gradient == Precision::fp32 &&
                       g.workload.precision != Precision::fp32;
  if (!is_wide) return false;
  if (s.zero == 0) return s.pipeline == 1;
  const bool is_fp16 = g.workload.precision == Precision::fp16;
  const bool leaves = s.offload.optimizer != OffloadTier::none;
  if (s.zero == 1) return is_fp16 || leaves;
  return s.zero == 2;
}
Misfit explain_gradient(const Setting& g, const Strategy& s) {
  return because(
      fmt::format("grad_accum_dtype fp32 with {} at zero={} is refused, or "
                  "accepted and not applied",
                  to_text(g.workload.precision), s.zero),
      fmt::format("--grad-dtype {}, or zero 3", to_text(g.workload.precision)));
}

bool lamb_broken(const Setting& g, const Strategy& s) {
  return g.workload.optimizer == OptimizerKind::lamb && s.zero > 0;
}
constexpr char kLamb[] = "LAMB under ZeRO is untested by DeepSpeed and refused";
constexpr char kLambNearest[] =
    "zero 0, or optimizer adam; zero_allow_untested_optimizer overrules it";

bool muon_broken(const Setting& g, const Strategy& s) {
  return g.workload.optimizer == OptimizerKind::muon && s.zero == 0;
}
constexpr char kMuon[] = "DeepSpeed's Muon is written for ZeRO 1 to 3";
constexpr char kMuonNearest[] = "zero 1, 2 or 3";

constexpr Rule kRules[] = {
    {"zero-pipeline",
     "deepspeedai/DeepSpeed deepspeed/runtime/pipe/engine.py: ZeRO-2 and "
     "ZeRO-3 are incompatible with pipeline parallelism; issue 3589",
     pipeline_zero_broken, explain_pipeline_zero},
    {"pipeline-1f1b",
     "deepspeedai/DeepSpeed deepspeed/runtime/pipe/schedule.py: TrainSchedule",
     schedule_broken, told<kSchedule, kScheduleNearest>},
    {"stages-by-list",
     "deepspeedai/DeepSpeed deepspeed/runtime/pipe/module.py: "
     "partition_method",
     ends_broken, told<kEnds, kEndsNearest>},
    {"no-sequence-parallel",
     "deepspeedai/DeepSpeed deepspeed/module_inject/auto_tp.py",
     sequence_parallel_broken,
     told<kSequenceParallel, kSequenceParallelNearest>},
    {"context-by-ulysses",
     "deepspeedai/DeepSpeed deepspeed/runtime/sequence_parallel/ulysses_sp.py",
     ring_broken, told<kRing, kRingNearest>},
    {"ulysses-alone",
     "deepspeedai/DeepSpeed deepspeed/__init__.py: mesh of data and sequence",
     ulysses_alone_broken, explain_ulysses_alone},
    {"shard-is-mics",
     "deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py: mics_shard_size",
     shard_broken, told<kShard, kShardNearest>},
    {"mics-on-device", "deepspeedai/DeepSpeed deepspeed/runtime/zero/mics.py",
     mics_offload_broken, told<kMicsOffload, kMicsOffloadNearest>},
    {"zero-plus-plus-stage",
     "deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py: "
     "zero_hpz_partition_size, zero_quantized_weights, "
     "zero_quantized_gradients",
     zero_plus_plus_broken, told<kZeroPlusPlus, kZeroPlusPlusNearest>},
    {"hpz-divides",
     "deepspeedai/DeepSpeed deepspeed/utils/groups.py: "
     "_create_zero_param_parallel_group",
     secondary_broken, explain_secondary},
    {"one-bit-without-zero",
     "deepspeedai/DeepSpeed deepspeed/runtime/engine.py: "
     "_configure_basic_optimizer",
     one_bit_broken, told<kOneBit, kOneBitNearest>},
    {"no-topk", "deepspeedai/DeepSpeed deepspeed/runtime/config.py",
     topk_broken, told<kTopk, kTopkNearest>},
    {"offload-needs-zero",
     "deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py: "
     "offload_optimizer",
     offload_broken, told<kOffload, kOffloadNearest>},
    {"nvme-needs-stage-3",
     "deepspeedai/DeepSpeed deepspeed/runtime/zero/stage_1_and_2.py: "
     "cpu_offload for any device but none",
     nvme_broken, explain_nvme},
    {"pipeline-on-device",
     "deepspeedai/DeepSpeed deepspeed/runtime/pipe/engine.py",
     offloaded_pipeline_broken,
     told<kOffloadedPipeline, kOffloadedPipelineNearest>},
    {"experts-below-stage-3",
     "deepspeedai/DeepSpeed deepspeed/runtime/engine.py: "
     "_validate_zero3_moe_compatibility",
     experts_broken, explain_experts},
    {"no-fp8", "deepspeedai/DeepSpeed deepspeed/runtime/precision_config.py",
     fp8_broken, told<kFp8, kFp8Nearest>},
    {"recompute-layers-only",
     "deepspeedai/DeepSpeed deepspeed/runtime/activation_checkpointing/"
     "checkpointing.py",
     modules_broken, told<kModules, kModulesNearest>},
    {"gradient-accumulation-dtype",
     "deepspeedai/DeepSpeed deepspeed/runtime/engine.py: "
     "_do_optimizer_sanity_check; runtime/zero/stage_1_and_2.py",
     gradient_broken, explain_gradient},
    {"lamb-without-zero",
     "deepspeedai/DeepSpeed deepspeed/runtime/zero/utils.py: "
     "ZERO_SUPPORTED_OPTIMIZERS",
     lamb_broken, told<kLamb, kLambNearest>},
    {"muon-needs-zero",
     "deepspeedai/DeepSpeed deepspeed/runtime/engine.py: Muon", muon_broken,
     told<kMuon, kMuonNearest>},
    {"flash-supported",
     "Dao-AILab/flash-attention README: Ampere, Ada or Hopper, fp16 and bf16",
     flash_broken, explain_flash},
};

// PipelineModule and AutoTP leave the vocabulary as it is.
constexpr int kVocabMultiple = 1;
// reduce_bucket_size. Source: deepspeed/runtime/zero/config.py.
constexpr std::int64_t kBucketElements = 500'000'000;

// Below stage 3: one reduce bucket, two with overlap_comm (measured on
// ViT-gigantic, deepspeedai/DeepSpeed#1302). Stage 3: one bucket, always held,
// and its copy; stage3_prefetch_bucket_size ahead. On the host: an fp32
// gradient and its pinned 16-bit source. Models are mostly those of
// transformers. bf16_optimizer.py keeps a bf16 gradient beside the fp32 one.
constexpr EngineMemory kMemory = {
    .loss = LossKernel::eager,
    .loss_until = Phase::loss,
    .unfused = true,
    .shards_are_master = false,
    .keeps_stage_gathered = false,
    .buckets_sharded = 2,
    .buckets = 1,
    .buckets_beside = 2,
    .allocates_whole_bucket = true,
    .overlaps_from = 3,
    .all_reduces_through = 2,
    .wide_gradients = false,
    .frees_gradients_through = 2,
    .shards_quantized = false,
    .prefetch = 50'000'000,
    .host_gradient_bytes = 6,
    .gradients_leave_device = true,
    .narrow_gradients = true,
    .slack_over = kEagerSlack,
    .source = "DeepSpeed: runtime/zero, runtime/bf16_optimizer.py"};

constexpr Engine kEngine = {"deepspeed",    "0.19.6",        kRules,
                            kVocabMultiple, kBucketElements, &kMemory};

}  // namespace

const Engine& deepspeed_engine() { return kEngine; }

}  // namespace ztplan
