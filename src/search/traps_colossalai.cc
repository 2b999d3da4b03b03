// Traps of Colossal-AI.
#include "search/trap.h"

namespace ztplan {
namespace {

bool gemini_routes(const Question& q, const Plan& plan) {
  return plan.strategy.zero == kShardedParameters && routes(q.model);
}

bool gemini_offloads(const Question&, const Plan& plan) {
  return plan.strategy.zero == kShardedParameters &&
         plan.strategy.offload.optimizer != OffloadTier::none;
}

bool lamb_is_offloaded(const Question& q, const Plan& plan) {
  return q.workload.optimizer == OptimizerKind::lamb &&
         plan.strategy.offload.optimizer != OffloadTier::none;
}

bool experts_are_frozen(const Question& q, const Plan& plan) {
  return plan.strategy.expert > 1 && q.workload.adapters.any();
}

bool sequence_is_cut(const Question&, const Plan& plan) {
  return plan.strategy.context > 1 || plan.strategy.sequence_parallel;
}

bool many_ranks_race(const Question&, const Plan& plan) {
  constexpr int kSeenNan = 64;  // GPUs of the thread; 32 ran
  const Strategy& s = plan.strategy;
  return s.zero == kShardedGradients && s.data * s.context >= kSeenNan &&
         overlaps_reduction(*plan.engine, s);
}

/// Shards are LowLevelZeroPlugin's; HybridParallelPlugin runs fp8 without.
bool shards_in_fp8(const Question& q, const Plan& plan) {
  const Strategy& s = plan.strategy;
  return q.workload.precision == Precision::fp8 && s.shard_group > 0 &&
         s.zero > 0 && s.zero < kShardedParameters;
}

/// HybridParallelPlugin is emitted for it: LowLevelZeroPlugin replaces no
/// attention.
bool gpt_mask_is_tensor(const Question& q, const Plan& plan) {
  const Strategy& s = plan.strategy;
  return q.model.positions == Positions::learned && s.zero == 0 &&
         s.tensor == 1 && s.pipeline == 1 && s.context == 1 &&
         q.workload.attention == AttentionKernel::flash;
}

/// The class Qwen2 of transformers.
bool qwen2_is_cut(const Question& q, const Plan& plan) {
  return q.model.name.starts_with("qwen2") && !routes(q.model) &&
         plan.strategy.tensor > 1 && plan.strategy.pipeline == 1;
}

constexpr Trap kTraps[] = {
    {Severity::trap, "gemini-with-experts", gemini_routes,
     "Gemini stopped at the experts of Mixtral: \"the synchronization of "
     "gradients doesn't exit properly\"",
     "MoeHybridParallelPlugin: ep above 1 with zero 1",
     "hpcaitech/ColossalAI#5185"},
    {Severity::trap, "gemini-offload-small-chunks", gemini_offloads,
     "with all optimizer states offloaded and small chunks, Gemini stopped "
     "with \"expected input to be on cuda\"",
     "a larger min_chunk_size_m, or offload_optim_frac below 1",
     "hpcaitech/ColossalAI#6388"},
    {Severity::trap, "lamb-offloaded", lamb_is_offloaded,
     "LAMB on the host stops: \"expected input to be on cuda\" of FusedLAMB, "
     "\"no backend type for cpu\" of Lamb",
     "offload=none, or optimizer adam", "hpcaitech/ColossalAI#6401"},
    {Severity::trap, "experts-with-adapters", experts_are_frozen,
     "MoeHybridParallelPlugin finds no trained experts among adapters: \"No "
     "parameters found in moe_dp_group\"",
     "ep 1", "hpcaitech/ColossalAI#6237"},
    {Severity::advice, "sequence-not-even", sequence_is_cut,
     "a batch whose length the sequence ranks do not divide cannot be split",
     "pad every batch to a multiple of them, as --seq is",
     "hpcaitech/ColossalAI#6381"},
    {Severity::advice, "zero-2-nan", many_ranks_race,
     "overlapped reductions of ZeRO 2 gave NaN on 64 GPUs where 32 trained",
     "overlap=0, or zero 1", "hpcaitech/ColossalAI#6091"},
    {Severity::trap, "low-level-fp8", shards_in_fp8,
     "LowLevelZeroPlugin in fp8 stops: \"shape is invalid for input\"",
     "no shard, which is HybridParallelPlugin, or --precision bf16",
     "hpcaitech/ColossalAI#6387"},
    {Severity::trap, "gpt2-flash-alone", gpt_mask_is_tensor,
     "HybridParallelPlugin without tp, pp and sp hands GPT-2's mask to its own "
     "flash attention as a tensor: TypeError",
     "zero 1, tp 2, or --attention eager", "hpcaitech/ColossalAI#6389"},
    {Severity::trap, "qwen2-tensor", qwen2_is_cut,
     "Qwen2 under tensor parallelism without a pipeline: forward() got an "
     "unexpected keyword argument 'force_sp_output_gather'",
     "pp 2 or more, or tp 1", "hpcaitech/ColossalAI#6265"},
};

}  // namespace

std::span<const Trap> colossalai_traps() { return kTraps; }

}  // namespace ztplan
