// Colossal-AI 0.5: HybridParallelPlugin, or GeminiPlugin for ZeRO 3. ZeRO 2
// refuses no_sync and accumulates gradients that every micro-batch reduced.
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

bool is_gemini(const Strategy& s) { return s.zero == kGemini; }

bool gemini_broken(const Setting& g, const Strategy& s) {
  return is_gemini(s) && (s.context > 1 || s.expert > 1 ||
                          g.workload.precision == Precision::fp32);
}
constexpr char kGeminiAlone[] =
    "zero=3 is GeminiPlugin: tensor parallelism beside it, 16-bit or fp8 "
    "numbers, and nothing else";
constexpr char kGeminiNearest[] = "zero 1, or cp 1 and ep 1 in bf16";

bool gemini_trains_broken(const Setting& g, const Strategy& s) {
  return is_gemini(s) && (g.workload.adapters.any() ||
                          g.workload.optimizer != OptimizerKind::adam);
}
constexpr char kGeminiTrains[] =
    "Gemini steps HybridAdam, FusedAdam or CPUAdam over every weight: it has "
    "no other optimizer and no adapters";
constexpr char kGeminiTrainsNearest[] = "zero 1 or 2, or optimizer adam";

// Gemini drops offload_param_frac unless all of the optimizer is offloaded.
bool gemini_offload_broken(const Setting&, const Strategy& s) {
  return s.offload.parameters != OffloadTier::none &&
         s.offload.optimizer == OffloadTier::none;
}
constexpr char kGeminiOffload[] =
    "Gemini ignores offload_param_frac unless the optimizer is offloaded whole";
constexpr char kGeminiOffloadNearest[] = "offload=cpu+parameters, or none";

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

bool sequence_modes_broken(const Setting&, const Strategy& s) {
  return s.sequence_parallel && s.context > 1;
}
Misfit explain_sequence_modes(const Setting&, const Strategy& s) {
  return because(
      fmt::format("sequence_parallelism_mode is one of split_gather (sp=1), "
                  "all_to_all and ring_attn (cp), and both are asked for: cp "
                  "is {}",
                  s.context),
      "sp=0, or cp 1");
}

bool is_ulysses(const Strategy& s) {
  return s.context > 1 && s.context_kind == ContextKind::ulysses;
}

// Every rank of tensor and of all-to-all keeps whole key/value heads.
bool splits_heads(const Attention& attention, const Strategy& s) {
  const int ranks = s.tensor * (is_ulysses(s) ? s.context : 1);
  return key_value_heads(attention) % ranks != 0;
}
bool kv_heads_broken(const Setting& g, const Strategy& s) {
  if (s.tensor == 1 && !is_ulysses(s)) return false;
  return any_layer(g.model, [&](const Layer& layer) {
    return splits_heads(layer.attention, s);
  });
}
Misfit explain_kv_heads(const Setting& g, const Strategy& s) {
  const Layer* layer = find_layer(g.model, [&](const Layer& each) {
    return splits_heads(each.attention, s);
  });
  const int heads = key_value_heads(layer->attention);
  if (is_ulysses(s))
    return because(
        fmt::format("{} key/value heads are not a multiple of tp*cp = {}*{}",
                    heads, s.tensor, s.context),
        fmt::format(
            "cp {}; cp_type=ring has no limit of heads",
            legal_sizes(&Strategy::context, heads, kv_heads_broken, g, s)));
  return because(
      fmt::format("{} key/value heads are not a multiple of tp {}", heads,
                  s.tensor),
      nearest_sizes({"tp", &Strategy::tensor}, heads, kv_heads_broken, g, s));
}

bool ring_kernel_broken(const Setting& g, const Strategy& s) {
  return s.context > 1 && s.context_kind == ContextKind::ring &&
         g.workload.attention != AttentionKernel::flash;
}
constexpr char kRingKernel[] = "ring_attn turns FlashAttention on";
constexpr char kRingKernelNearest[] = "cp_type=ulysses, or --attention flash";

bool stages_broken(const Setting&, const Strategy& s) {
  return s.ends_as_layers || (s.virtual_stages > 1 && !s.stage_layers.empty());
}
constexpr char kStages[] =
    "num_layers_per_stage has a number for each stage: not for chunks, and "
    "embedding and loss are no layers";
constexpr char kStagesNearest[] = "stages=even, or vpp 1 with stages= a list";

bool gpipe_broken(const Setting&, const Strategy& s) {
  return s.schedule == Schedule::gpipe;
}
constexpr char kGpipe[] = "pp_style is 1f1b, interleaved or zbv";
constexpr char kGpipeNearest[] = "schedule=1f1b";

constexpr char kWholeBackward[] =
    "of the zero-bubble schedules Colossal-AI has zbv, whose scheduler_nodes "
    "it makes from costs in Python: a configuration cannot say them";
constexpr char kWholeBackwardNearest[] = "schedule=1f1b, or engine fsdp";

bool shard_broken(const Setting&, const Strategy& s) {
  return s.shard_group > 0 && !is_gemini(s) &&
         (s.pipeline > 1 || s.tensor > 1 || s.context > 1);
}
constexpr char kShard[] =
    "extra_dp_size belongs to LowLevelZeroPlugin, which has data parallelism "
    "alone, and to Gemini";
constexpr char kShardNearest[] =
    "no shard, or zero 3, or pp 1 and tp 1 and cp 1";

bool compression_broken(const Setting&, const Strategy& s) {
  const Tuning& t = s.tuning;
  return t.compression != Compression::none || t.quantized_weights ||
         t.secondary > 0 || t.live || t.persistent || t.persistent_total ||
         t.prefetch;
}
constexpr char kCompression[] =
    "Colossal-AI has no compression of gradients, no hpZ and no ZeRO-3 "
    "prefetch in elements";
constexpr char kCompressionNearest[] = "bucket, overlap and comm alone";

bool buckets_broken(const Setting&, const Strategy& s) {
  const bool is_low_level = s.zero == 1 || s.zero == 2;
  return !is_low_level && (s.tuning.bucket || s.tuning.communication);
}
Misfit explain_buckets(const Setting&, const Strategy& s) {
  return because(
      fmt::format("zero_bucket_size_in_m and communication_dtype are of "
                  "LowLevelZero, and zero is {}",
                  s.zero),
      "zero 1, or neither bucket nor comm");
}

bool parts_broken(const Setting&, const Strategy& s) {
  return s.recompute.mode == Recompute::Mode::selective;
}
constexpr char kParts[] =
    "gradient checkpointing of Colossal-AI is of whole layers";
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

bool gradient_broken(const Setting& g, const Strategy&) {
  const Precision precision = g.workload.precision;
  return g.workload.gradient == Precision::fp32 &&
         (precision == Precision::bf16 || precision == Precision::fp16);
}
Misfit explain_gradient(const Setting& g, const Strategy&) {
  return because(fmt::format("gradients of {} training add up as they are "
                             "computed, not in fp32",
                             to_text(g.workload.precision)),
                 fmt::format("--grad-dtype {}", to_text(g.workload.precision)));
}

bool stored_broken(const Setting& g, const Strategy&) {
  return stores_otherwise(g.workload);
}
Misfit explain_stored(const Setting& g, const Strategy&) {
  return because(
      fmt::format("plugins cast the model to their precision, {}: weights are "
                  "not {}",
                  to_text(weight_dtype(g.workload.precision)),
                  to_text(*g.workload.parameter)),
      fmt::format("--param-dtype {}",
                  to_text(weight_dtype(g.workload.precision))));
}

constexpr char kStates[] = "states belong to fp32 master weights, and are fp32";
constexpr char kStatesNearest[] = "--optimizer-dtype fp32";

constexpr Rule kRules[] = {
    {"zero-pipeline",
     "hpcaitech/ColossalAI colossalai/booster/plugin/"
     "hybrid_parallel_plugin.py: zero_stage <= 1 with pp_size > 1",
     pipeline_zero_broken, explain_pipeline_zero},
    {"gemini-alone",
     "hpcaitech/ColossalAI colossalai/booster/plugin/gemini_plugin.py",
     gemini_broken, told<kGeminiAlone, kGeminiNearest>},
    {"gemini-adam",
     "hpcaitech/ColossalAI colossalai/zero/gemini/gemini_optimizer.py: "
     "_AVAIL_OPTIM_LIST; colossalai/booster/plugin/gemini_plugin.py: "
     "support_lora",
     gemini_trains_broken, told<kGeminiTrains, kGeminiTrainsNearest>},
    {"gemini-offloads-optimizer-first",
     "hpcaitech/ColossalAI colossalai/zero/gemini/placement_policy.py: "
     "offload_param_frac is ignored",
     gemini_offload_broken, told<kGeminiOffload, kGeminiOffloadNearest>},
    {"experts-by-ep",
     "hpcaitech/ColossalAI colossalai/booster/plugin/"
     "moe_hybrid_parallel_plugin.py: no such argument",
     expert_tensor_broken, told<kExpertTensor, kExpertTensorNearest>},
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
    {"one-sequence-mode",
     "hpcaitech/ColossalAI colossalai/booster/plugin/"
     "hybrid_parallel_plugin.py: sequence_parallelism_mode",
     sequence_modes_broken, explain_sequence_modes},
    {"kv-heads-whole",
     "hpcaitech/ColossalAI colossalai/shardformer/policies/llama.py: "
     "num_kv_heads >= tp_size and num_kv_heads % tp_size == 0",
     kv_heads_broken, explain_kv_heads},
    {"ulysses-sequence",
     "hpcaitech/ColossalAI colossalai/shardformer/layer/_operation.py: "
     "split_forward_gather_backward",
     ulysses_sequence_broken, explain_ulysses_sequence},
    {"ring-is-flash",
     "hpcaitech/ColossalAI colossalai/booster/plugin/"
     "hybrid_parallel_plugin.py: enable_flash_attention with ring_attn",
     ring_kernel_broken, told<kRingKernel, kRingKernelNearest>},
    {"stages-by-list",
     "hpcaitech/ColossalAI colossalai/pipeline/stage_manager.py: "
     "num_layers_per_stage",
     stages_broken, told<kStages, kStagesNearest>},
    {"no-gpipe",
     "hpcaitech/ColossalAI colossalai/booster/plugin/"
     "hybrid_parallel_plugin.py: pp_style",
     gpipe_broken, told<kGpipe, kGpipeNearest>},
    {"whole-backward",
     "hpcaitech/ColossalAI colossalai/pipeline/schedule/v_schedule.py: "
     "PipelineGraph",
     split_backward_broken, told<kWholeBackward, kWholeBackwardNearest>},
    {"shard-alone",
     "hpcaitech/ColossalAI colossalai/booster/plugin/low_level_zero_plugin.py: "
     "extra_dp_size",
     shard_broken, told<kShard, kShardNearest>},
    {"no-compression",
     "hpcaitech/ColossalAI colossalai/booster/plugin/"
     "hybrid_parallel_plugin.py",
     compression_broken, told<kCompression, kCompressionNearest>},
    {"buckets-of-zero",
     "hpcaitech/ColossalAI colossalai/booster/plugin/"
     "hybrid_parallel_plugin.py: zero_config",
     buckets_broken, explain_buckets},
    {"gradient-as-computed",
     "hpcaitech/ColossalAI colossalai/zero/low_level/low_level_optim.py",
     gradient_broken, explain_gradient},
    {"weights-as-computed",
     "hpcaitech/ColossalAI colossalai/booster/plugin/"
     "hybrid_parallel_plugin.py: HybridParallelModule",
     stored_broken, explain_stored},
    {"states-fp32",
     "hpcaitech/ColossalAI colossalai/zero/low_level/low_level_optim.py: "
     "master_weights",
     moments_broken, told<kStates, kStatesNearest>},
    {"recompute-layers-only",
     "hpcaitech/ColossalAI colossalai/shardformer/shard/"
     "grad_ckpt_config.py",
     parts_broken, told<kParts, kPartsNearest>},
    {"optimizer-known", "hpcaitech/ColossalAI colossalai/nn/optimizer",
     optimizer_broken, told<kOptimizer, kOptimizerNearest>},
    kFp8Shapes,
    kNoFp4,
    kFlashSupported,
};

// make_vocab_size_divisible_by. Source:
// colossalai/booster/plugin/hybrid_parallel_plugin.py.
constexpr int kVocabMultiple = 64;
// zero_bucket_size_in_m 12, of 1024 * 1024 elements; same source.
constexpr std::int64_t kBucketElements = std::int64_t{12} * 1024 * 1024;

constexpr EngineMemory kMemory = {
    .loss = LossKernel::eager,
    .buckets_sharded = 1,
    .buckets = 1,
    .buckets_beside = 2,
    .all_reduces_through = 1,
    .wide_gradients = false,
    .frees_gradients_through = 2,
    // GeminiDDP.reuse_fp16_chunk, unless gradients are accumulated.
    .gradients_replace_weights = true,
    .slack_over = kEagerSlack,
    .source =
        "ColossalAI: zero/low_level/low_level_optim.py, "
        "zero/gemini/gemini_ddp.py"};

constexpr Engine kEngine = {"colossalai",   "0.5.0",         kRules,
                            kVocabMultiple, kBucketElements, &kMemory};

}  // namespace

const Engine& colossalai_engine() { return kEngine; }

}  // namespace ztplan
