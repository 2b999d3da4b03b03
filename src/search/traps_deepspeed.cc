// Traps of DeepSpeed.
#include "search/trap.h"

namespace ztplan {
namespace {

/// AutoEP's layers hold their experts in one tensor: each rank visits all.
bool experts_hang(const Question& q, const Plan& plan) {
  return plan.strategy.zero == kShardedParameters &&
         plan.strategy.expert == 1 && routes(q.model);
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

bool offers_no_sync(const Question& q, const Plan& plan) {
  return plan.strategy.zero >= kShardedGradients &&
         accumulates(q, plan.strategy);
}

bool stage_0_is_bf16(const Question& q, const Plan& plan) {
  return plan.strategy.zero == 0 && plan.strategy.pipeline == 1 &&
         q.workload.precision == Precision::bf16;
}

bool frozen_is_recomputed(const Question& q, const Plan& plan) {
  return plan.strategy.zero == kShardedParameters &&
         q.workload.adapters.any() &&
         plan.strategy.recompute.mode != Recompute::Mode::none;
}

bool secondary_hangs(const Question& q, const Plan& plan) {
  return plan.strategy.tuning.secondary > 1 && spans_nodes(q);
}

bool empty_stage_waits(const Question&, const Plan& plan) {
  return plan.strategy.zero == 1 && has_empty_stage(plan.strategy);
}

bool is_muon_below_3(const Question& q, const Plan& plan) {
  return q.workload.optimizer == OptimizerKind::muon &&
         plan.strategy.zero < kShardedParameters;
}

bool muon_overflows(const Question& q, const Plan& plan) {
  return is_muon_below_3(q, plan) && q.workload.precision == Precision::fp16;
}

bool muon_is_not_run(const Question& q, const Plan& plan) {
  return is_muon_below_3(q, plan) && plan.strategy.zero == 1 &&
         q.workload.precision == Precision::bf16 &&
         q.workload.gradient == Precision::fp32;
}

constexpr Trap kTraps[] = {
    {Severity::trap, "experts-hang-stage-3", experts_hang,
     "ZeRO 3 waits for every rank at every expert: ranks that route to "
     "different experts hang",
     "make the block of experts a leaf: zero_optimization.leaf_module (0.19 "
     "does "
     "for Mixtral, Qwen2-MoE and Qwen3-MoE), or ep with AutoEP",
     "deepspeedai/DeepSpeed#4966"},
    {Severity::advice, "overlap-comm-nan", overlap_races,
     "with overlap_comm and small buckets the norm of gradients became NaN "
     "(reported up to 0.16.4)",
     "bucket=2e8 or more, or overlap=0", "deepspeedai/DeepSpeed#5347"},
    {Severity::trap, "offload-drops-gradients", offloaded_sum_is_short,
     "before the correction of April 2026, gradients that are offloaded count "
     "the first micro-batch of a step alone in their norm",
     "a DeepSpeed with that pull request, as 0.19.6 is, or one micro-batch",
     "deepspeedai/DeepSpeed#7967"},
    {Severity::advice, "hpz-first-loss", secondary_starts_high,
     "with hpZ the loss of the first step, and of the first after a "
     "checkpoint, was far too high before pull request 7707",
     "compare the first losses with a run without hpz",
     "deepspeedai/DeepSpeed#7606"},
    {Severity::trap, "hpz-with-offload", secondary_offloads,
     "hpZ beside offload trained nothing: the loss stayed as it was, with a "
     "gradient norm of 0",
     "hpz without offload, or offload without hpz",
     "deepspeedai/DeepSpeed#6926"},
    {Severity::trap, "quantized-gradients-diverge", quantized_diverges,
     "quantised gradients of ZeRO++ over several nodes drove the loss to "
     "infinity, in fp16 and in bf16",
     "compress=none, or compare the first losses with it",
     "deepspeedai/DeepSpeed#4886"},
    {Severity::trap, "mics-needs-init", mics_needs_init,
     "MiCS asks for a model made under deepspeed.zero.MiCS_Init; accelerate "
     "and the Trainer make it under zero.Init, which fails",
     "make the model under MiCS_Init, or use hpz= instead",
     "huggingface/accelerate#3442"},
    {Severity::advice, "no-sync-refused", offers_no_sync,
     "stages 2 and 3 refuse no_sync(), which accelerate's accumulate() calls "
     "between micro-batches (DeepSpeed 0.16 and later)",
     "let the engine accumulate: forward, backward and step of every "
     "micro-batch, as transformers' Trainer does",
     "huggingface/accelerate#3481"},
    {Severity::advice, "stage-0-bf16-norm", stage_0_is_bf16,
     "before its pull request 7839 of February 2026, stage 0 in bf16 divided "
     "gradients by a loss scale that was never applied, and did not clear them",
     "a DeepSpeed with that pull request, as 0.19.6 is, or zero 1",
     "deepspeedai/DeepSpeed#7837"},
    {Severity::trap, "frozen-weights-recomputed", frozen_is_recomputed,
     "recomputed layers see frozen weights that stage 3 has freed: "
     "CheckpointError, shape [0] (0.19.2; pull request 8148 keeps them)",
     "a DeepSpeed with that pull request, use_reentrant=True, or zero 2",
     "huggingface/transformers#47254"},
    {Severity::advice, "hpz-hangs", secondary_hangs,
     "hpZ over several nodes was seen to hang for ever since pull request "
     "4906",
     "try two nodes first, or leave hpz out", "deepspeedai/DeepSpeed#5030"},
    {Severity::trap, "empty-stage-hangs", empty_stage_waits,
     "a pipeline with a stage of the embedding alone hangs in the gradient "
     "norm of ZeRO 1",
     "a layer on every stage, or zero 0", "deepspeedai/DeepSpeed#1522"},
    {Severity::advice, "muon-partial-gradients", is_muon_below_3,
     "before pull request 8141 of July 2026, reduce_scatter gave Muon parts "
     "of matrices that cross a partition: wrong updates, or refused",
     "a DeepSpeed with that pull request, or \"reduce_scatter\": false",
     "deepspeedai/DeepSpeed#7807"},
    {Severity::trap, "muon-fp16-overflow", muon_overflows,
     "the first overflow of the loss scale makes Muon's momentum NaN for good: "
     "no step is taken after it",
     "--precision bf16, or initial_scale_power 0",
     "deepspeedai/DeepSpeed#8432"},
    {Severity::trap, "muon-not-orthogonal", muon_is_not_run,
     "fp32 gradients of bf16 weights at stage 1 go to BF16_Optimizer, which "
     "never orthogonalizes: Muon is SGD there",
     "--grad-dtype bf16, or zero 2", "deepspeedai/DeepSpeed#8442"},
};

}  // namespace

std::span<const Trap> deepspeed_traps() { return kTraps; }

}  // namespace ztplan
