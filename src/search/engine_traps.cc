// One row a trap; the source is the thread that reports it. What an engine
// refuses outright is a rule of src/strategy/engines, not a trap.
#include "search/engine_traps.h"

#include <algorithm>
#include <string_view>

namespace ztplan {
namespace {

constexpr int kShardedGradients = 2, kShardedParameters = 3;

bool routes(const ModelSpec& model) {
  return std::ranges::any_of(model.layers, [](const LayerGroup& group) {
    return group.layer.ffn.is_moe();
  });
}

bool slides(const ModelSpec& model) {
  return std::ranges::any_of(model.layers, [](const LayerGroup& group) {
    return group.layer.attention.window > 0;
  });
}

bool spans_nodes(const Question& q) {
  return q.cluster.devices > q.cluster.devices_per_node;
}

bool accumulates(const Question& q, const Strategy& s) {
  return s.pipeline == 1 && micro_batches(s, q.workload) > 1;
}

bool experts_hang(const Question& q, const Plan& plan) {
  return plan.strategy.zero == kShardedParameters && routes(q.model);
}

bool overlap_races(const Question&, const Plan& plan) {
  constexpr std::int64_t kSeenSafe = 200'000'000;  // elements, of the thread
  const Strategy& s = plan.strategy;
  return s.zero >= 1 && s.zero < kShardedParameters &&
         overlaps_reduction(*plan.engine, s) &&
         s.tuning.bucket.value_or(kSeenSafe) < kSeenSafe;
}

bool offloaded_sum_is_short(const Question& q, const Plan& plan) {
  const Strategy& s = plan.strategy;
  return s.zero >= 1 && s.zero < kShardedParameters &&
         s.offload.optimizer == OffloadTier::cpu && accumulates(q, s);
}

bool secondary_starts_high(const Question&, const Plan& plan) {
  return plan.strategy.tuning.secondary > 1 &&
         plan.strategy.offload == Offload{};
}

bool secondary_offloads(const Question&, const Plan& plan) {
  return plan.strategy.tuning.secondary > 1 &&
         plan.strategy.offload != Offload{};
}

bool quantized_diverges(const Question& q, const Plan& plan) {
  return plan.strategy.tuning.compression == Compression::quantized &&
         spans_nodes(q);
}

bool mics_needs_init(const Question&, const Plan& plan) {
  return plan.strategy.shard_group > 0;
}

bool window_is_dropped(const Question& q, const Plan& plan) {
  return plan.strategy.context > 1 && slides(q.model);
}

bool clips_on_host(const Question&, const Plan& plan) {
  return plan.strategy.offload.parameters != OffloadTier::none;
}

/// Whole gradients in fp32, as accelerate keeps them between reductions, would
/// not fit beside the plan.
bool unreduced_is_too_big(const Question& q, const Plan& plan) {
  constexpr std::int64_t kFp32 = 4;
  const Strategy& s = plan.strategy;
  if (s.zero < kShardedGradients || !accumulates(q, s) ||
      q.workload.adapters.any())
    return false;
  const Bytes whole{kFp32 * parameters(q.model) / s.tensor};
  return plan.memory.peak() + whole > plan.capacity;
}

bool norms_differ(const Question&, const Plan& plan) {
  const Strategy& s = plan.strategy;
  if (s.zero == 0) return s.data > 1;
  return s.shard_group > 0 && s.shard_group < s.data * s.context;
}

bool queue_is_one(const Question&, const Plan& plan) {
  const Strategy& s = plan.strategy;
  return (s.tensor > 1 || s.context > 1) && s.data > 1 &&
         s.zero < kShardedGradients && overlaps_reduction(*plan.engine, s);
}

bool gemini_routes(const Question& q, const Plan& plan) {
  return plan.strategy.zero == kShardedParameters && routes(q.model);
}

bool gemini_offloads(const Question&, const Plan& plan) {
  return plan.strategy.zero == kShardedParameters &&
         plan.strategy.offload.optimizer != OffloadTier::none;
}

struct Trap {
  std::string_view engine;
  Severity severity;
  const char* rule;
  bool (*meets)(const Question& question, const Plan& plan);
  const char* detail;
  const char* remedy;
  const char* source;
};

constexpr Trap kTraps[] = {
    {"deepspeed", Severity::trap, "experts-hang-stage-3", experts_hang,
     "ZeRO 3 waits for every rank at every expert: ranks that route to "
     "different experts hang",
     "make the block of experts a leaf: zero_optimization.leaf_module, or "
     "deepspeed.utils.set_z3_leaf_modules",
     "deepspeedai/DeepSpeed#4966"},
    {"deepspeed", Severity::advice, "overlap-comm-nan", overlap_races,
     "with overlap_comm and small buckets the norm of gradients became NaN "
     "(reported up to 0.16.4)",
     "bucket=2e8 or more, or overlap=0", "deepspeedai/DeepSpeed#5347"},
    {"deepspeed", Severity::trap, "offload-drops-gradients",
     offloaded_sum_is_short,
     "before the correction of April 2026, gradients that are offloaded count "
     "the first micro-batch of a step alone in their norm",
     "a DeepSpeed with that pull request, as 0.19.6 is, or one micro-batch",
     "deepspeedai/DeepSpeed#7967"},
    {"deepspeed", Severity::advice, "hpz-first-loss", secondary_starts_high,
     "with hpZ the loss of the first step, and of the first after a "
     "checkpoint, was far too high before pull request 7707",
     "compare the first losses with a run without hpz",
     "deepspeedai/DeepSpeed#7606"},
    {"deepspeed", Severity::trap, "hpz-with-offload", secondary_offloads,
     "hpZ beside offload trained nothing: the loss stayed as it was, with a "
     "gradient norm of 0",
     "hpz without offload, or offload without hpz",
     "deepspeedai/DeepSpeed#6926"},
    {"deepspeed", Severity::trap, "quantized-gradients-diverge",
     quantized_diverges,
     "quantised gradients of ZeRO++ over several nodes drove the loss to "
     "infinity, in fp16 and in bf16",
     "compress=none, or compare the first losses with it",
     "deepspeedai/DeepSpeed#4886"},
    {"deepspeed", Severity::trap, "mics-needs-init", mics_needs_init,
     "MiCS asks for a model made under deepspeed.zero.MiCS_Init; accelerate "
     "and the Trainer make it under zero.Init, which fails",
     "make the model under MiCS_Init, or use hpz= instead",
     "huggingface/accelerate#3442"},
    {"fsdp", Severity::trap, "context-drops-window", window_is_dropped,
     "accelerate replaces the mask of sliding windows by a causal one under "
     "context parallelism; later versions refuse it",
     "cp 1, or torchtitan with a model that cuts its own mask",
     "huggingface/accelerate#4177"},
    {"fsdp", Severity::trap, "offload-clips-on-host", clips_on_host,
     "clipping reduces norms of offloaded gradients on the host, for which "
     "NCCL has no backend",
     "init_process_group(\"cpu:gloo,cuda:nccl\")", "pytorch/pytorch#148532"},
    {"fsdp", Severity::trap, "accumulation-holds-gradients",
     unreduced_is_too_big,
     "accelerate does not reduce between micro-batches: whole gradients stay "
     "on each GPU, and they do not fit",
     "GradientAccumulationPlugin(sync_each_batch=True); torchtitan reduces in "
     "each micro-batch",
     "huggingface/accelerate#2531"},
    {"fsdp", Severity::advice, "replica-gradient-norm", norms_differ,
     "torchtitan scales gradients of replicas otherwise than of shards since "
     "its pull request 2206: the same max_norm clips otherwise",
     "compare the gradient norm with that of one shard group",
     "pytorch/torchtitan#2318"},
    {"megatron", Severity::advice, "one-queue-no-overlap", queue_is_one,
     "tensor and context parallelism set CUDA_DEVICE_MAX_CONNECTIONS=1, under "
     "which --overlap-grad-reduce was seen to overlap nothing",
     "look for overlap in a profile; more accumulation hides what is left",
     "NVIDIA/Megatron-LM#1468"},
    {"colossalai", Severity::trap, "gemini-with-experts", gemini_routes,
     "Gemini stopped at the experts of Mixtral: \"the synchronization of "
     "gradients doesn't exit properly\"",
     "MoeHybridParallelPlugin: ep above 1 with zero 1",
     "hpcaitech/ColossalAI#5185"},
    {"colossalai", Severity::trap, "gemini-offload-small-chunks",
     gemini_offloads,
     "with all optimizer states offloaded and small chunks, Gemini stopped "
     "with \"expected input to be on cuda\"",
     "a larger min_chunk_size_m, or offload_optim_frac below 1",
     "hpcaitech/ColossalAI#6388"},
};

}  // namespace

std::vector<Finding> engine_traps(const Question& question, const Plan& plan) {
  std::vector<Finding> found;
  for (const Trap& trap : kTraps)
    if (trap.engine == plan.engine->name && trap.meets(question, plan))
      found.push_back({trap.severity, trap.rule, "strategy", trap.detail,
                       trap.remedy, trap.source});
  return found;
}

}  // namespace ztplan
