// Colossal-AI 0.5: HybridParallelPlugin, or GeminiPlugin for ZeRO 3.
#include <fmt/format.h>

#include "strategy/engine_memory.h"
#include "strategy/engines/engines.h"
#include "strategy/engines/rules.h"

namespace ztplan {
namespace {

constexpr int kGemini = 3;  // the ZeRO stage that GeminiPlugin is

bool pipeline_zero_broken(const Setting&, const Strategy& s) {
  return s.pipeline > 1 && s.zero > 1;
}
Misfit explain_pipeline_zero(const Setting&, const Strategy& s) {
  return because(fmt::format("pp {} with zero={}: HybridParallelPlugin asks "
                             "for zero_stage <= 1, and Gemini has no pipeline",
                             s.pipeline, s.zero),
                 fmt::format("zero 1 with pp {}, or zero {} with pp 1",
                             s.pipeline, s.zero));
}

bool gemini_broken(const Setting& g, const Strategy& s) {
  return s.zero == kGemini && (s.context > 1 || s.expert > 1 ||
                               g.workload.precision == Precision::fp32 ||
                               g.workload.precision == Precision::fp8);
}
constexpr char kGeminiAlone[] =
    "zero=3 is GeminiPlugin: tensor parallelism beside it, fp16 or bf16, and "
    "nothing else";
constexpr char kGeminiNearest[] = "zero 1 or 2, or cp 1, ep 1 and bf16";

bool experts_broken(const Setting&, const Strategy& s) {
  return s.expert > 1 && s.zero != 1;
}
Misfit explain_experts(const Setting&, const Strategy& s) {
  return because(
      fmt::format("MoeHybridParallelPlugin silently changes zero={} to 1",
                  s.zero),
      "zero 1, or ep 1");
}

bool experts_divide_broken(const Setting&, const Strategy& s) {
  return s.data % s.expert != 0;
}
Misfit explain_experts_divide(const Setting& g, const Strategy& s) {
  return because(fmt::format("ep {} does not divide dp {}", s.expert, s.data),
                 nearest_sizes({"ep", &Strategy::expert}, s.data,
                               experts_divide_broken, g, s));
}

bool offload_broken(const Setting&, const Strategy& s) {
  const auto [optimizer, parameters] = s.offload;
  if (optimizer == OffloadTier::none && parameters == OffloadTier::none)
    return false;
  return optimizer == OffloadTier::nvme || parameters == OffloadTier::nvme ||
         s.zero == 0;
}
constexpr char kOffload[] =
    "Colossal-AI offloads to host memory, by ZeRO (cpu_offload) or Gemini";
constexpr char kOffloadNearest[] = "offload=cpu with zero 1, 2 or 3";

bool accumulation_broken(const Setting& g, const Strategy& s) {
  return s.zero == 2 && micro_batches(s, g.workload) > 1;
}
Misfit explain_accumulation(const Setting& g, const Strategy& s) {
  return because(
      fmt::format("zero_stage 2 refuses no_sync, so {} micro-batches are not "
                  "accumulated",
                  micro_batches(s, g.workload)),
      fmt::format("zero 1, or global batch {}", s.data * s.micro_batch));
}

bool gpipe_broken(const Setting&, const Strategy& s) {
  return s.schedule == Schedule::gpipe;
}
constexpr char kGpipe[] = "pp_style is 1f1b, interleaved or zbv";
constexpr char kGpipeNearest[] = "schedule=1f1b";

bool shard_broken(const Setting&, const Strategy& s) {
  return s.shard_group > 0 && s.pipeline > 1;
}
constexpr char kShard[] =
    "extra_dp_size belongs to LowLevelZero and Gemini, which have no pipeline";
constexpr char kShardNearest[] = "no shard, or pp 1";

bool tuning_broken(const Setting&, const Strategy& s) {
  const Tuning& t = s.tuning;
  return t.compression != Compression::none || t.quantized_weights ||
         t.secondary > 0 || t.live || t.persistent || t.prefetch;
}
constexpr char kTuning[] =
    "Colossal-AI has no compression of gradients, no hpZ and no ZeRO-3 "
    "prefetch in elements";
constexpr char kTuningNearest[] = "bucket, overlap and comm alone";

bool parts_broken(const Setting&, const Strategy& s) {
  return s.recompute.mode == Recompute::Mode::selective;
}
constexpr char kParts[] = "gradient checkpointing there is of whole layers";
constexpr char kPartsNearest[] = "recompute=full, full:N or none";

bool optimizer_broken(const Setting& g, const Strategy&) {
  const OptimizerKind kind = g.workload.optimizer;
  return kind == OptimizerKind::adam8bit || kind == OptimizerKind::muon ||
         kind == OptimizerKind::lion || kind == OptimizerKind::adagrad;
}
constexpr char kOptimizer[] =
    "Colossal-AI's optimizers are Adam (HybridAdam, FusedAdam, CPUAdam), LAMB, "
    "SGD and their distributed forms";
constexpr char kOptimizerNearest[] = "optimizer adam, lamb or sgd";

constexpr Rule kRules[] = {
    {"zero-pipeline",
     "hpcaitech/ColossalAI colossalai/booster/plugin/"
     "hybrid_parallel_plugin.py: zero_stage <= 1 with pp_size > 1",
     pipeline_zero_broken, explain_pipeline_zero},
    {"gemini-alone",
     "hpcaitech/ColossalAI colossalai/booster/plugin/gemini_plugin.py",
     gemini_broken, told<kGeminiAlone, kGeminiNearest>},
    {"experts-zero-1",
     "hpcaitech/ColossalAI colossalai/booster/plugin/"
     "moe_hybrid_parallel_plugin.py",
     experts_broken, explain_experts},
    {"experts-divide-data",
     "hpcaitech/ColossalAI colossalai/booster/plugin/"
     "moe_hybrid_parallel_plugin.py: dp_size % ep_size",
     experts_divide_broken, explain_experts_divide},
    {"offload-to-host",
     "hpcaitech/ColossalAI colossalai/zero/low_level/low_level_optim.py",
     offload_broken, told<kOffload, kOffloadNearest>},
    {"no-sync-at-stage-2",
     "hpcaitech/ColossalAI colossalai/booster/plugin/low_level_zero_plugin.py: "
     "support_no_sync",
     accumulation_broken, explain_accumulation},
    {"no-gpipe",
     "hpcaitech/ColossalAI colossalai/booster/plugin/"
     "hybrid_parallel_plugin.py: pp_style",
     gpipe_broken, told<kGpipe, kGpipeNearest>},
    {"shard-without-pipeline",
     "hpcaitech/ColossalAI colossalai/booster/plugin/low_level_zero_plugin.py: "
     "extra_dp_size",
     shard_broken, told<kShard, kShardNearest>},
    {"no-compression",
     "hpcaitech/ColossalAI colossalai/booster/plugin/"
     "hybrid_parallel_plugin.py",
     tuning_broken, told<kTuning, kTuningNearest>},
    {"recompute-layers-only",
     "hpcaitech/ColossalAI colossalai/shardformer/shard/"
     "grad_ckpt_config.py",
     parts_broken, told<kParts, kPartsNearest>},
    {"optimizer-known", "hpcaitech/ColossalAI colossalai/nn/optimizer",
     optimizer_broken, told<kOptimizer, kOptimizerNearest>},
    {"flash-supported",
     "Dao-AILab/flash-attention README: Ampere, Ada or Hopper, fp16 and bf16",
     flash_broken, explain_flash},
};

// make_vocab_size_divisible_by. Source:
// colossalai/booster/plugin/hybrid_parallel_plugin.py.
constexpr int kVocabMultiple = 64;
// zero_bucket_size_in_m 12, of 1024 * 1024 elements; same source.
constexpr std::int64_t kBucketElements = 12 * 1024 * 1024;

constexpr EngineMemory kMemory = {
    .loss = LossKernel::eager,
    .loss_until = Phase::loss,
    .unfused = false,
    .shards_are_master = false,
    .keeps_stage_gathered = false,
    .buckets_sharded = 1,
    .buckets = 1,
    .buckets_beside = 2,
    .allocates_whole_bucket = false,
    .overlaps_from = 0,
    .all_reduces_through = 1,
    .wide_gradients = false,
    .frees_gradients_through = 2,
    .shards_quantized = true,
    .prefetch = 0,
    .host_gradient_bytes = 4,
    .gradients_leave_device = false,
    .narrow_gradients = false,
    .slack_over = kEagerSlack,
    .source = "ColossalAI: zero/low_level/low_level_optim.py"};

constexpr Engine kEngine = {"colossalai",   "0.5.0",         kRules,
                            kVocabMultiple, kBucketElements, &kMemory};

}  // namespace

const Engine& colossalai_engine() { return kEngine; }

}  // namespace ztplan
