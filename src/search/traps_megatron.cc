// Traps of Megatron-LM.
#include "search/trap.h"

namespace ztplan {
namespace {

bool queue_is_one(const Question&, const Plan& plan) {
  const Strategy& s = plan.strategy;
  return (s.tensor > 1 || s.context > 1) && s.data > 1 &&
         s.zero < kShardedGradients && overlaps_reduction(*plan.engine, s);
}

bool has_instances(const Strategy& s) {
  return s.zero > 0 && s.shard_group > 0 && s.shard_group < s.data * s.context;
}

bool instances_overlap(const Question&, const Plan& plan) {
  const Strategy& s = plan.strategy;
  return s.zero == 1 && has_instances(s) && overlaps_reduction(*plan.engine, s);
}

bool muon_has_instances(const Question& q, const Plan& plan) {
  return q.workload.optimizer == OptimizerKind::muon &&
         has_instances(plan.strategy);
}

bool muon_gathers_fp8(const Question& q, const Plan& plan) {
  return q.workload.optimizer == OptimizerKind::muon &&
         q.workload.parameter == Precision::fp8 && plan.strategy.zero > 0;
}

/// All gradients, or those of the experts, have one rank to be sharded over.
bool lone_rank_doubles(const Question& q, const Plan& plan) {
  const Strategy& s = plan.strategy;
  const bool alone = zero_group(s) == 1 ||
                     (routes(q.model) && s.expert > 1 && expert_data(s) == 1);
  return s.zero == kShardedParameters && alone &&
         micro_batches(s, q.workload) > 1;
}

bool sharded_is_offloaded(const Question&, const Plan& plan) {
  return plan.strategy.zero >= kShardedGradients &&
         plan.strategy.offload.optimizer != OffloadTier::none;
}

bool empty_stage_waits(const Question&, const Plan& plan) {
  return plan.strategy.pipeline > 1 && has_empty_stage(plan.strategy);
}

bool part_is_masked(const Question&, const Plan& plan) {
  return plan.strategy.context > 1;
}

bool copies_start_random(const Question&, const Plan& plan) {
  return plan.strategy.offload.optimizer != OffloadTier::none;
}

constexpr Trap kTraps[] = {
    {Severity::advice, "one-queue-no-overlap", queue_is_one,
     "tensor and context parallelism set CUDA_DEVICE_MAX_CONNECTIONS=1, under "
     "which --overlap-grad-reduce was seen to overlap nothing",
     "look for overlap in a profile; more accumulation hides what is left",
     "NVIDIA/Megatron-LM#1468"},
    {Severity::trap, "instances-overlap-reduce", instances_overlap,
     "--overlap-grad-reduce with several distributed optimizer instances had "
     "a bug in the reduction before pull request 3693 of March 2026",
     "a Megatron-LM with that pull request, or overlap=0",
     "NVIDIA/Megatron-LM#3693"},
    {Severity::trap, "muon-ignores-instances", muon_has_instances,
     "the layer-wise optimizer of Muon shards over all data-parallel ranks and "
     "knows no instances, before pull request 6048 of July 2026",
     "no shard, or a Megatron-LM with that pull request",
     "NVIDIA/Megatron-LM#6048"},
    {Severity::trap, "muon-fp8-never-updates", muon_gathers_fp8,
     "Muon with --fp8-param-gather updates weights that the forward pass does "
     "not read: the loss stays flat",
     "--param-dtype bf16, or optimizer adam", "NVIDIA/Megatron-LM#5707"},
    {Severity::trap, "lone-rank-doubles-gradients", lone_rank_doubles,
     "Megatron-FSDP doubles gradients in every micro-batch where one rank "
     "holds them (dp 1, or ep equal to it), before pull request 6773 of "
     "September 2026",
     "a Megatron-LM with that pull request, zero 2 or less, or a smaller ep",
     "NVIDIA/Megatron-LM#6660"},
    {Severity::trap, "sharded-precision-aware", sharded_is_offloaded,
     "Megatron-FSDP with the precision-aware optimizer that offloading needs "
     "skipped every update before pull request 4427 of April 2026",
     "a Megatron-LM with that pull request, zero 1, or offload=none",
     "NVIDIA/Megatron-LM#4427"},
    {Severity::trap, "empty-stage-hangs", empty_stage_waits,
     "a --pipeline-model-parallel-layout with a stage of no layers was "
     "refused, or hung",
     "a layer on every stage and chunk", "NVIDIA/Megatron-LM#1852"},
    {Severity::advice, "masked-part-is-nan", part_is_masked,
     "a rank whose part of a sequence is all padding or prompt gives a loss of "
     "NaN under context parallelism",
     "pack sequences, so that each part holds tokens that count",
     "NVIDIA/Megatron-LM#1764"},
    {Severity::advice, "offloaded-master-weights", copies_start_random,
     "with the optimizer on the host, weights loaded from a checkpoint of "
     "another framework did not reach its fp32 copies: training began at "
     "random weights",
     "look at the first loss; copy weights to the optimizer after loading, as "
     "NVIDIA-NeMo/RL#2372 does",
     "NVIDIA-NeMo/RL#2371"},
};

}  // namespace

std::span<const Trap> megatron_traps() { return kTraps; }

}  // namespace ztplan
