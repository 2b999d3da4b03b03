// PyTorch FSDP2 as torchtitan 0.2 and accelerate 1.15 drive it. ZeRO 3 reshards
// after forward, ZeRO 2 does not; a shard group is HSDP's.
#include <fmt/format.h>

#include "strategy/engine_memory.h"
#include "strategy/engines/engines.h"
#include "strategy/engines/rules.h"

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
      "zero 2 or 3, or dp 1");
}

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
         t.secondary > 0 || t.live || t.persistent || t.prefetch || t.bucket;
}
constexpr char kTuning[] =
    "FSDP2 reduces and gathers one wrapped layer at a time: it has no buckets, "
    "no compression and no ZeRO++";
constexpr char kTuningNearest[] =
    "none of bucket, prefetch, live, persist, hpz, qw and compress; comm=bf16 "
    "is there";

bool parts_broken(const Setting&, const Strategy& s) {
  const Recompute& r = s.recompute;
  return r.mode == Recompute::Mode::selective && !r.op;
}
constexpr char kParts[] =
    "torchtitan recomputes layers or by operation, not modules by name";
constexpr char kPartsNearest[] = "recompute=selective:op, full or full:N";

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
    {"offload-together",
     "pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fsdp_api.py: "
     "CPUOffloadPolicy",
     offload_broken, told<kOffload, kOffloadNearest>},
    {"context-by-ring",
     "pytorch/torchtitan torchtitan/distributed/utils.py: "
     "context_parallel_rotate_method",
     ulysses_broken, told<kUlysses, kUlyssesNearest>},
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
    {"flash-supported",
     "Dao-AILab/flash-attention README: Ampere, Ada or Hopper, fp16 and bf16",
     flash_broken, explain_flash},
};

constexpr int kVocabMultiple = 1;  // sharded by rows, unevenly where they must
// Gradients are reduced a wrapped layer at a time.
constexpr std::int64_t kBucketElements = 40'000'000;

// Reduce-scatter inputs are those of the layer being differentiated.
constexpr EngineMemory kMemory = {
    .loss = LossKernel::eager,
    .loss_until = Phase::backward,
    .unfused = false,
    .shards_are_master = true,
    .keeps_stage_gathered = true,
    .buckets_sharded = 0,
    .buckets = 0,
    .buckets_beside = 0,
    .allocates_whole_bucket = false,
    .overlaps_from = 0,
    .all_reduces_through = 0,
    .wide_gradients = true,
    .frees_gradients_through = 3,
    .shards_quantized = true,
    .prefetch = 0,
    .host_gradient_bytes = 4,
    .gradients_leave_device = true,
    .narrow_gradients = false,
    .slack_over = kFusedSlack,
    .source =
        "PyTorch: distributed/fsdp/_fully_shard/_fsdp_param_group.py, "
        "distributed/pipelining/stage.py"};

constexpr Engine kEngine = {"fsdp",          "torch 2.9, torchtitan 0.2.2",
                            kRules,          kVocabMultiple,
                            kBucketElements, &kMemory};

}  // namespace

const Engine& fsdp_engine() { return kEngine; }

}  // namespace ztplan
