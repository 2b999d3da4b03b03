// Traps of PyTorch FSDP, through torchtitan and accelerate.
#include "search/trap.h"

namespace ztplan {
namespace {

bool window_is_dropped(const Question& q, const Plan& plan) {
  return plan.strategy.context > 1 && slides(q.model);
}

bool clips_on_host(const Question&, const Plan& plan) {
  return plan.strategy.offload.parameters != OffloadTier::none;
}

/// Whole gradients, as accelerate keeps them between reductions, would not fit
/// beside a plan that does not count them.
bool unreduced_is_too_big(const Question& q, const Plan& plan) {
  const Strategy& s = plan.strategy;
  if (s.zero < kShardedGradients || !accumulates(q, s) ||
      q.workload.adapters.any() || q.workload.framework.reduces_once)
    return false;
  const Bytes whole{activation_bytes(q.workload.precision) *
                    parameters(q.model) / s.tensor};
  return plan.memory.peak() + whole > plan.capacity;
}

bool norms_differ(const Question&, const Plan& plan) {
  const Strategy& s = plan.strategy;
  if (s.zero == 0) return s.data > 1;
  return s.shard_group > 0 && s.shard_group < s.data * s.context;
}

bool pipeline_scales_loss(const Question&, const Plan& plan) {
  return plan.strategy.pipeline > 1;
}

bool experts_add_up(const Question&, const Plan& plan) {
  return plan.strategy.expert > 1;
}

bool tensor_cuts_experts(const Question& q, const Plan& plan) {
  return plan.strategy.tensor > 1 && routes(q.model);
}

bool shows_part_of_loss(const Question&, const Plan& plan) {
  return plan.strategy.tensor > 1 && plan.strategy.context > 1;
}

bool tied_in_two_groups(const Question& q, const Plan& plan) {
  return q.model.tied && plan.strategy.zero > 0;
}

bool frozen_is_widened(const Question& q, const Plan& plan) {
  return q.workload.adapters.any() && plan.strategy.zero > 0;
}

bool chunked_loss_is_cut(const Question& q, const Plan& plan) {
  return q.workload.loss == LossKernel::chunked && plan.strategy.tensor > 1;
}

bool clips_without_experts(const Question& q, const Plan& plan) {
  const Strategy& s = plan.strategy;
  return s.pipeline > 1 && s.expert > 1 && has_dense_layers(q.model);
}

constexpr Trap kTraps[] = {
    {Severity::trap, "context-drops-window", window_is_dropped,
     "accelerate replaces the mask of sliding windows by a causal one under "
     "context parallelism; later versions refuse it",
     "cp 1, or torchtitan with a model that cuts its own mask",
     "huggingface/accelerate#4177"},
    {Severity::trap, "offload-clips-on-host", clips_on_host,
     "clipping reduces norms of offloaded gradients on the host, for which "
     "NCCL has no backend",
     "init_process_group(\"cpu:gloo,cuda:nccl\")", "pytorch/pytorch#148532"},
    {Severity::trap, "accumulation-holds-gradients", unreduced_is_too_big,
     "accelerate does not reduce between micro-batches: whole gradients stay "
     "on each GPU, and they do not fit",
     "GradientAccumulationPlugin(sync_each_batch=True); torchtitan reduces in "
     "each micro-batch",
     "huggingface/accelerate#2531"},
    {Severity::advice, "replica-gradient-norm", norms_differ,
     "torchtitan scales gradients of replicas otherwise than of shards since "
     "its pull request 2206: the same max_norm clips otherwise",
     "compare the gradient norm with that of one shard group",
     "pytorch/torchtitan#2318"},
    {Severity::trap, "pipeline-gradient-scale", pipeline_scales_loss,
     "torchtitan from its pull request 2206 to 2937 (January to May 2026) does "
     "not divide the loss by tokens under a pipeline: gradients are that much "
     "larger and always clipped",
     "a torchtitan with pull request 2937, or pp 1", "pytorch/torchtitan#2972"},
    {Severity::advice, "expert-gradients-add-up", experts_add_up,
     "gradients of experts were seen ep times too large: harmless to Adam, not "
     "to clipping or SGD",
     "compare the norm of an expert's gradient with ep 1",
     "pytorch/pytorch#160285"},
    {Severity::advice, "tensor-experts-gradient", tensor_cuts_experts,
     "before October 2025 torchtitan lost a reduce-scatter in the backward of "
     "experts under tensor parallelism",
     "a later torchtitan, or tp 1", "pytorch/torchtitan#1805"},
    {Severity::advice, "shown-loss-is-partial", shows_part_of_loss,
     "with tp and cp together torchtitan shows a loss that is not reduced over "
     "cp, cp times too small; it trains on the right one",
     "compare losses with cp 1, not across cp", "pytorch/torchtitan#3329"},
    {Severity::advice, "tied-weights-two-groups", tied_in_two_groups,
     "torch 2.13 refuses tied weights in two groups, as accelerate shards them "
     "before its pull request 4171 of August 2026",
     "an accelerate with that pull request, or torch 2.12",
     "huggingface/accelerate#4171"},
    {Severity::advice, "frozen-weights-widened", frozen_is_widened,
     "accelerate before its pull request 3848 of November 2025 casts frozen "
     "weights to fp32 too: twice their memory",
     "an accelerate with that pull request, as 1.15 is",
     "huggingface/accelerate#3844"},
    {Severity::trap, "chunked-loss-tensor", chunked_loss_is_cut,
     "torchtitan's chunked loss under tensor parallelism gave the decoder a "
     "part of its gradient before pull request 3412 of May 2026",
     "a torchtitan with that pull request, or another --loss",
     "pytorch/torchtitan#3412"},
    {Severity::advice, "clip-without-experts", clips_without_experts,
     "torchtitan before its pull request 1541 of August 2025 stops in clipping "
     "on a stage that holds no experts: Tensor has no full_tensor",
     "a later torchtitan, or stages that all hold experts",
     "pytorch/torchtitan#1541"},
};

}  // namespace

std::span<const Trap> fsdp_traps() { return kTraps; }

}  // namespace ztplan
