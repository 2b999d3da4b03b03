// DeepSpeed 0.19. ZeRO 0 is its data parallelism, a shard group under ZeRO 3 is
// MiCS; tensor is AutoTP, context with Ulysses its sequence parallelism, a
// pipeline its PipelineModule.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "strategy/engine_memory.h"
#include "strategy/engines/deepspeed_rules.h"
#include "strategy/engines/engines.h"
#include "strategy/engines/rules.h"

namespace ztplan {
namespace {

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

bool ulysses_eager_broken(const Setting& g, const Strategy& s) {
  return s.context > 1 && g.workload.attention == AttentionKernel::eager;
}
Misfit explain_ulysses_eager(const Setting&, const Strategy& s) {
  return because(fmt::format("eager attention makes a mask of its own, wrong "
                             "for one of cp {} parts",
                             s.context),
                 "--attention flash or sdpa, or cp 1");
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
  return s.tuning.compression == Compression::quantized &&
         s.zero != kShardedParameters;
}
constexpr char kZeroPlusPlus[] =
    "compress=quantized is ZeRO++, which is of ZeRO stage 3";
constexpr char kZeroPlusPlusNearest[] = "zero 3, or compress=none";

bool secondary_broken(const Setting& g, const Strategy& s) {
  return s.tuning.secondary > 0 && g.cluster.devices % s.tuning.secondary != 0;
}
Misfit explain_secondary(const Setting& g, const Strategy& s) {
  return because(
      fmt::format("hpz {} does not divide the {} GPUs", s.tuning.secondary,
                  g.cluster.devices),
      nearest_divisors("hpz", s.tuning.secondary, g.cluster.devices));
}

// MiCS and hpZ cut the world into groups of neighbours.
bool group_tensor_broken(const Setting&, const Strategy& s) {
  return s.tensor > 1 && (s.shard_group > 0 || s.tuning.secondary > 0);
}
Misfit explain_group_tensor(const Setting&, const Strategy& s) {
  return because(
      fmt::format("groups of MiCS and hpZ are neighbouring ranks, and those "
                  "hold tp {}",
                  s.tensor),
      "tp 1, or no shard and no hpz");
}

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

bool offloaded_pipeline_broken(const Setting& g, const Strategy& s) {
  return s.pipeline > 1 && s.offload.optimizer != OffloadTier::none &&
         g.workload.precision == Precision::bf16;
}
constexpr char kOffloadedPipeline[] =
    "a bf16 pipeline of DeepSpeed fails in the first step of an offloaded "
    "optimizer; in fp16 it runs";
constexpr char kOffloadedPipelineNearest[] =
    "offload=none, or pp 1, or --precision fp16";

bool quantized_stay_broken(const Setting& g, const Strategy& s) {
  return g.workload.quantize != Quantize::none &&
         s.offload.parameters != OffloadTier::none;
}
constexpr char kQuantizedStay[] =
    "ZeRO 3 neither partitions nor offloads quantized weights: they stay on "
    "every GPU";
constexpr char kQuantizedStayNearest[] =
    "offload=none, or engine fsdp, or no --quantize";

// Experts lie along data parallelism: of the ranks of a stage, one in tp.
bool experts_data_broken(const Setting&, const Strategy& s) {
  return s.expert > 1 && s.data * s.context % s.expert != 0;
}
Misfit explain_experts_data(const Setting& g, const Strategy& s) {
  return because(fmt::format("ep {} does not divide the {} data-parallel ranks",
                             s.expert, s.data * s.context),
                 nearest_sizes({"ep", &Strategy::expert}, s.data * s.context,
                               experts_data_broken, g, s));
}

/// What AutoEP does not go with at stage 3; empty for nothing.
std::string_view beside_auto_ep(const Strategy& s) {
  if (s.tensor > 1) return "tp";
  if (s.context > 1) return "cp";
  if (s.shard_group > 0) return "shard";
  if (s.tuning.secondary > 1) return "hpz";
  return s.tuning.compression == Compression::quantized ? "compress=quantized"
                                                        : "";
}

bool experts_broken(const Setting& g, const Strategy& s) {
  return s.expert > 1 && s.zero == kShardedParameters &&
         !(auto_ep_replaces(g.model) && beside_auto_ep(s).empty());
}
Misfit explain_experts(const Setting& g, const Strategy& s) {
  if (!auto_ep_replaces(g.model))
    return because(
        fmt::format("ep {} with ZeRO 3: deepspeed.moe's layers support stages "
                    "0 to 2, and AutoEP, which runs stage 3, replaces gated "
                    "experts without biases alone",
                    s.expert),
        fmt::format("zero 2 with ep {}, or zero 3 with ep 1", s.expert));
  const std::string_view beside = beside_auto_ep(s);
  return because(
      fmt::format("AutoEP shards experts at stage 3, but not beside {}: ep is "
                  "{}",
                  beside, s.expert),
      fmt::format("zero 3 with ep {} without {}", s.expert, beside));
}

bool modules_broken(const Setting&, const Strategy& s) {
  return s.recompute.mode == Recompute::Mode::selective;
}
constexpr char kModules[] =
    "deepspeed.checkpointing recomputes the whole layers it is called on: no "
    "part of one can be named";
constexpr char kModulesNearest[] = "recompute=full, or recompute=none";

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
    {"ulysses-sequence",
     "deepspeedai/DeepSpeed deepspeed/runtime/sequence_parallel/"
     "ulysses_sp.py: batch's seqlen isn't divisible by sp-size",
     ulysses_sequence_broken, explain_ulysses_sequence},
    {"ulysses-attention",
     "deepspeedai/DeepSpeed deepspeed/runtime/sequence_parallel/"
     "ulysses_sp.py: supported_attn_implementation",
     ulysses_eager_broken, explain_ulysses_eager},
    {"shard-is-mics",
     "deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py: mics_shard_size",
     shard_broken, told<kShard, kShardNearest>},
    {"mics-on-device", "deepspeedai/DeepSpeed deepspeed/runtime/zero/mics.py",
     mics_offload_broken, told<kMicsOffload, kMicsOffloadNearest>},
    {"zero-plus-plus-stage",
     "deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py: "
     "zero_quantized_gradients",
     zero_plus_plus_broken, told<kZeroPlusPlus, kZeroPlusPlusNearest>},
    {"hpz-divides",
     "deepspeedai/DeepSpeed deepspeed/utils/groups.py: "
     "_create_zero_param_parallel_group",
     secondary_broken, explain_secondary},
    {"groups-without-tensor",
     "deepspeedai/DeepSpeed deepspeed/utils/groups.py: "
     "_create_zero_param_parallel_group, _init_tp_mesh_device; "
     "deepspeed/runtime/zero/mics_utils.py",
     group_tensor_broken, explain_group_tensor},
    {"offload-needs-zero",
     "deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py: "
     "offload_optimizer",
     offload_broken, told<kOffload, kOffloadNearest>},
    {"nvme-needs-stage-3",
     "deepspeedai/DeepSpeed deepspeed/runtime/zero/stage_1_and_2.py: "
     "cpu_offload for any device but none",
     nvme_broken, explain_nvme},
    {"pipeline-on-device",
     "deepspeedai/DeepSpeed issue 3866; pull request 1042 for fp16",
     offloaded_pipeline_broken,
     told<kOffloadedPipeline, kOffloadedPipelineNearest>},
    {"quantized-stay",
     "InternLM/xtuner issue 88; deepspeedai/DeepSpeed "
     "deepspeed/runtime/zero/partition_parameters.py",
     quantized_stay_broken, told<kQuantizedStay, kQuantizedStayNearest>},
    {"experts-by-ep",
     "deepspeedai/DeepSpeed deepspeed/module_inject/auto_ep_config.py: "
     "expert_tensor_parallel_size",
     expert_tensor_broken, told<kExpertTensor, kExpertTensorNearest>},
    {"experts-divide-data",
     "deepspeedai/DeepSpeed deepspeed/utils/groups.py: "
     "_create_expert_data_and_model_parallel",
     experts_data_broken, explain_experts_data},
    {"experts-at-stage-3",
     "deepspeedai/DeepSpeed deepspeed/runtime/engine.py: "
     "_validate_zero3_moe_compatibility",
     experts_broken, explain_experts},
    {"recompute-layers-only",
     "deepspeedai/DeepSpeed deepspeed/runtime/activation_checkpointing/"
     "checkpointing.py",
     modules_broken, told<kModules, kModulesNearest>},
};

// PipelineModule and AutoTP leave the vocabulary as it is.
constexpr int kVocabMultiple = 1;
// reduce_bucket_size. Source: deepspeed/runtime/zero/config.py.
constexpr std::int64_t kBucketElements = 500'000'000;

// Below stage 3: one reduce bucket, two with overlap_comm (measured on
// ViT-gigantic, deepspeedai/DeepSpeed#1302). Stage 3: one bucket, always held,
// and its copy; parameters up to stage3_param_persistence_threshold whole;
// stage3_prefetch_bucket_size ahead. On the host: an fp32
// gradient and its pinned 16-bit source. Models are mostly those of
// transformers. bf16_optimizer.py keeps a bf16 gradient beside the fp32 one.
constexpr EngineMemory kMemory = {
    .loss = LossKernel::eager,
    .unfused = true,
    .keeps_boundaries = true,
    .buckets_sharded = 2,
    .buckets = 1,
    .buckets_beside = 2,
    .allocates_whole_bucket = true,
    .overlaps_from = 3,
    .all_reduces_through = 2,
    .wide_gradients = false,
    .frees_gradients_through = 2,
    .shards_quantized = false,
    .persistent = 100'000,
    .prefetch = 50'000'000,
    .host_gradient_bytes = 6,
    .pinned = Pinned::flat,
    .gradients_leave_device = true,
    .adds_shards = true,
    .flattens = true,
    .groups_stages = true,
    .narrow_gradients = true,
    .slack_over = kEagerSlack,
    .source = "DeepSpeed: runtime/zero, runtime/bf16_optimizer.py"};

}  // namespace

bool auto_ep_replaces(const ModelSpec& model) {
  const auto blocks = [](const LayerGroup& group) {
    const FeedForward& f = group.layer.ffn;
    return f.is_moe() && !(f.gated && !f.bias);
  };
  return has_experts(model) && std::ranges::none_of(model.layers, blocks);
}

const Engine& deepspeed_engine() {
  static const RuleList rules = {kRules, deepspeed_number_rules()};
  static const Engine engine = {"deepspeed",    "0.19.6",        rules.all(),
                                kVocabMultiple, kBucketElements, &kMemory};
  return engine;
}

}  // namespace ztplan
