// PyTorch FSDP2 as torchtitan 0.2 and accelerate 1.15 drive it. ZeRO 3 reshards
// after forward, ZeRO 2 does not; a shard group is HSDP's.
#include <fmt/format.h>

#include "strategy/engine_memory.h"
#include "strategy/engines/engines.h"
#include "strategy/engines/rules.h"
#include "strategy/schedule.h"

namespace ztplan {
namespace {

bool zero_broken(const Setting&, const Strategy& s) { return s.zero == 1; }
constexpr char kZero[] =
    "FSDP shards gradients with the optimizer states: it has no ZeRO 1";
constexpr char kZeroNearest[] = "zero 2 or 3, or zero 0 (DDP)";

bool ddp_broken(const Setting&, const Strategy& s) {
  return s.zero == 0 && (s.context > 1 || (s.data > 1 && s.tensor > 1));
}
Misfit explain_ddp(const Setting&, const Strategy& s) {
  return because(
      fmt::format("tp {} and cp {} with replicated data parallelism alone: "
                  "accelerate and torchtitan ask for a shard dimension",
                  s.tensor, s.context),
      "zero 2 or 3, or cp 1 with dp 1");
}

// Copies of the sharded model: HSDP's, or DDP's.
int replicas(const Strategy& s) {
  if (s.zero == 0) return s.data;
  return s.data * s.context / zero_group(s);
}

// Ranks of a stage that experts may be spread over: those of one copy.
int ranks_of_copy(const Strategy& s) {
  return s.tensor * (s.data * s.context / replicas(s));
}

bool experts_broken(const Setting&, const Strategy& s) {
  return s.expert > 1 && replicas(s) > 1 && ranks_of_copy(s) % s.expert != 0;
}
Misfit explain_experts(const Setting& g, const Strategy& s) {
  return because(
      fmt::format("ep {} does not divide dp_shard*cp*tp = {}: experts are "
                  "spread inside one of {} copies",
                  s.expert, ranks_of_copy(s), replicas(s)),
      nearest_sizes({"ep", &Strategy::expert}, g.cluster.devices,
                    experts_broken, g, s));
}

bool shard_context_broken(const Setting&, const Strategy& s) {
  return s.shard_group > 0 && s.shard_group % s.context != 0;
}
// Shard groups that also divide the ranks, as the common rule asks.
bool shard_size_broken(const Setting& g, const Strategy& s) {
  return s.data * s.context % s.shard_group != 0 || shard_context_broken(g, s);
}
Misfit explain_shard_context(const Setting& g, const Strategy& s) {
  return because(fmt::format("shard {} is dp_shard*cp, and cp is {}",
                             s.shard_group, s.context),
                 nearest_sizes({"shard", &Strategy::shard_group},
                               s.data * s.context, shard_size_broken, g, s));
}

// Tokens of a rank come in two chunks of the ring, cut again by tensor ranks.
std::int64_t sequence_unit(const Strategy& s) {
  constexpr int kChunks = 2;
  const std::int64_t tensor = s.sequence_parallel ? s.tensor : 1;
  return tensor * kChunks * s.context;
}
bool sequence_broken(const Setting& g, const Strategy& s) {
  return s.context > 1 && g.workload.sequence % sequence_unit(s) != 0;
}
Misfit explain_sequence(const Setting& g, const Strategy& s) {
  const std::int64_t unit = sequence_unit(s);
  return because(
      fmt::format("sequence {} is not a multiple of {} = {}",
                  g.workload.sequence, s.sequence_parallel ? "tp*2*cp" : "2*cp",
                  unit),
      either("sequence " + nearest_multiples(g.workload.sequence, unit),
             nearest_sizes({"cp", &Strategy::context}, g.cluster.devices,
                           sequence_broken, g, s)));
}

bool few_batches_broken(const Setting& g, const Strategy& s) {
  return s.pipeline > 1 && s.virtual_stages == 1 &&
         micro_batches(s, g.workload) < s.pipeline;
}
Misfit explain_few_batches(const Setting& g, const Strategy& s) {
  return because(fmt::format("{} micro-batches are fewer than the {} stages",
                             micro_batches(s, g.workload), s.pipeline),
                 either(fmt::format("global batch {}",
                                    s.pipeline * s.data * s.micro_batch),
                        nearest_sizes({"pp", &Strategy::pipeline}, s.pipeline,
                                      few_batches_broken, g, s)));
}

// torch's ZB1P is a multi-stage schedule, and it has no ZB2P.
bool zero_bubble_broken(const Setting&, const Strategy& s) {
  return s.schedule == Schedule::zb_h2 ||
         (s.schedule == Schedule::zb_h1 && s.virtual_stages == 1);
}
Misfit explain_zero_bubble(const Setting&, const Strategy& s) {
  if (s.schedule == Schedule::zb_h1)
    return because(
        "InterleavedZeroBubble, torch's ZB-H1, runs several chunks a stage, "
        "and vpp is 1",
        "vpp 2, or schedule=1f1b");
  return because("torch.distributed.pipelining has no ZB-H2",
                 "schedule=zb-h1 with vpp 2");
}

bool split_op_broken(const Setting&, const Strategy& s) {
  return splits_backward(s.schedule) && s.recompute.op;
}
constexpr char kSplitOp[] =
    "recompute=selective:op caches what one backward uses once, and this "
    "schedule runs it in two";
constexpr char kSplitOpNearest[] = "recompute=full or none, or schedule=1f1b";

bool offload_broken(const Setting&, const Strategy& s) {
  const auto [optimizer, parameters] = s.offload;
  return optimizer != parameters || optimizer == OffloadTier::nvme;
}
constexpr char kOffload[] =
    "CPUOffloadPolicy moves parameters, gradients and optimizer states "
    "together, to host memory";
constexpr char kOffloadNearest[] = "offload=cpu+parameters, or none";

bool ulysses_broken(const Setting&, const Strategy& s) {
  return s.context > 1 && s.context_kind == ContextKind::ulysses;
}
constexpr char kUlysses[] =
    "context parallelism of PyTorch is a ring (allgather or alltoall of keys "
    "and values), not Ulysses";
constexpr char kUlyssesNearest[] = "cp_type=ring, or engine deepspeed";

bool tuning_broken(const Setting&, const Strategy& s) {
  const Tuning& t = s.tuning;
  return t.compression != Compression::none || t.quantized_weights ||
         t.secondary > 0 || t.live || t.persistent || t.persistent_total ||
         t.prefetch || t.bucket;
}
constexpr char kTuning[] =
    "FSDP2 reduces and gathers one wrapped layer at a time: it has no buckets, "
    "no compression and no ZeRO++";
constexpr char kTuningNearest[] =
    "none of bucket, prefetch, live, persist, hpz, qw and compress; comm= is "
    "there";

bool parts_broken(const Setting&, const Strategy& s) {
  return s.recompute.mode == Recompute::Mode::selective && !s.recompute.op;
}
constexpr char kParts[] =
    "torchtitan and accelerate recompute whole layers, or all but a list of "
    "operations; not parts of a layer by name";
constexpr char kPartsNearest[] =
    "recompute=selective:op, or recompute=full, or recompute=none";

bool reduced_broken(const Setting& g, const Strategy& s) {
  const auto dtype = s.tuning.communication;
  return dtype && *dtype != Precision::fp32 &&
         *dtype != weight_dtype(g.workload.precision);
}
Misfit explain_reduced(const Setting& g, const Strategy& s) {
  return because(
      fmt::format("reduce_dtype {} is neither fp32 nor the dtype of {} "
                  "training",
                  to_text(*s.tuning.communication),
                  to_text(g.workload.precision)),
      "comm=fp32");
}

bool stored_broken(const Setting& g, const Strategy&) {
  return stores_otherwise(g.workload) &&
         *g.workload.parameter != Precision::fp32;
}
Misfit explain_stored(const Setting& g, const Strategy&) {
  return because(
      fmt::format("shards are fp32, or as training computes: {} weights are "
                  "not kept under {}",
                  to_text(*g.workload.parameter),
                  to_text(g.workload.precision)),
      "--param-dtype fp32");
}

bool states_broken(const Setting& g, const Strategy& s) {
  return moments_broken(g, s) && g.workload.parameter != g.workload.moments;
}
Misfit explain_states(const Setting& g, const Strategy&) {
  return because(
      fmt::format("optimizer states have the dtype of the shards they belong "
                  "to, not {}",
                  to_text(g.workload.moments)),
      fmt::format("--optimizer-dtype fp32, or --param-dtype {}",
                  to_text(g.workload.moments)));
}

bool integers_broken(const Setting& g, const Strategy& s) {
  return g.workload.quantize == Quantize::int8 && s.zero > 0;
}
constexpr char kIntegers[] =
    "FSDP shards floating-point tensors: bitsandbytes stores 4-bit weights in "
    "one, 8-bit weights it does not";
constexpr char kIntegersNearest[] = "zero 0, or --quantize nf4";

bool offloaded_pipeline_broken(const Setting&, const Strategy& s) {
  return s.pipeline > 1 && s.offload.parameters != OffloadTier::none;
}
constexpr char kOffloadedPipeline[] =
    "under a pipeline FSDP keeps its stage gathered: offload cannot bring it "
    "back in time";
constexpr char kOffloadedPipelineNearest[] = "offload=none, or pp 1";

constexpr Rule kRules[] = {
    {"no-zero-1",
     "pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fully_shard.py: "
     "reshard_after_forward",
     zero_broken, told<kZero, kZeroNearest>},
    {"shard-dimension",
     "huggingface/accelerate src/accelerate/parallelism_config.py", ddp_broken,
     explain_ddp},
    {"experts-by-ep",
     "pytorch/torchtitan torchtitan/distributed/parallel_dims.py: main has no "
     "expert tensor dimension",
     expert_tensor_broken, told<kExpertTensor, kExpertTensorNearest>},
    {"experts-in-copy",
     "pytorch/torchtitan torchtitan/distributed/parallel_dims.py: "
     "dp_shard * cp * tp % ep",
     experts_broken, explain_experts},
    {"shard-holds-context",
     "pytorch/torchtitan torchtitan/distributed/parallel_dims.py: fsdp is "
     "dp_shard * cp",
     shard_context_broken, explain_shard_context},
    {"offload-together",
     "pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fsdp_api.py: "
     "CPUOffloadPolicy",
     offload_broken, told<kOffload, kOffloadNearest>},
    {"context-by-ring",
     "pytorch/torchtitan torchtitan/distributed/utils.py: "
     "context_parallel_rotate_method",
     ulysses_broken, told<kUlysses, kUlyssesNearest>},
    {"sequence-divisor",
     "pytorch/torchtitan torchtitan/distributed/parallel_dims.py: "
     "seq_len_divisor",
     sequence_broken, explain_sequence},
    {"batches-fill-stages",
     "pytorch/pytorch torch/distributed/pipelining/schedules.py: "
     "PipelineScheduleSingle",
     few_batches_broken, explain_few_batches},
    {"zero-bubble-chunks",
     "pytorch/pytorch torch/distributed/pipelining/schedules.py: "
     "ScheduleInterleavedZeroBubble",
     zero_bubble_broken, explain_zero_bubble},
    {"split-backward-recomputes", "areal-project/AReaL pull request 916",
     split_op_broken, told<kSplitOp, kSplitOpNearest>},
    {"no-buckets",
     "pytorch/pytorch torch/distributed/fsdp/_fully_shard/"
     "_fsdp_param_group.py",
     tuning_broken, told<kTuning, kTuningNearest>},
    {"recompute-operations",
     "pytorch/torchtitan torchtitan/distributed/activation_checkpoint.py",
     parts_broken, told<kParts, kPartsNearest>},
    {"offload-without-pipeline",
     "pytorch/torchtitan torchtitan/distributed/pipeline_parallel.py",
     offloaded_pipeline_broken,
     told<kOffloadedPipeline, kOffloadedPipelineNearest>},
    {"reduce-dtype",
     "pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fsdp_api.py: "
     "MixedPrecisionPolicy; huggingface/accelerate "
     "src/accelerate/utils/fsdp_utils.py",
     reduced_broken, explain_reduced},
    {"shard-dtype",
     "pytorch/torchtitan torchtitan/config/job_config.py: training.dtype",
     stored_broken, explain_stored},
    {"states-follow-shards",
     "pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fsdp_param.py",
     states_broken, explain_states},
    {"no-integer-shards",
     "bitsandbytes-foundation/bitsandbytes docs/source/fsdp_qlora.md",
     integers_broken, told<kIntegers, kIntegersNearest>},
    kFp8Shapes,
    kNoFp4,
    kFlashSupported,
};

constexpr int kVocabMultiple = 1;  // sharded by rows, unevenly where they must
// Gradients are reduced a wrapped layer at a time.
constexpr std::int64_t kBucketElements = 40'000'000;

// Reduce-scatter inputs are those of the layer being differentiated.
constexpr EngineMemory kMemory = {
    .loss = LossKernel::eager,
    .loss_until = Phase::backward,
    .shards_are_master = true,
    .keeps_stage_gathered = true,
    .frees_gradients_through = 3,
    .pinned = Pinned::parameters,
    .gradients_leave_device = true,
    .source =
        "PyTorch: distributed/fsdp/_fully_shard/_fsdp_param_group.py, "
        "distributed/pipelining/stage.py"};

constexpr Engine kEngine = {"fsdp",          "torch 2.9, torchtitan 0.2.2",
                            kRules,          kVocabMultiple,
                            kBucketElements, &kMemory};

}  // namespace

const Engine& fsdp_engine() { return kEngine; }

}  // namespace ztplan
