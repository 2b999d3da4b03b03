#include <algorithm>

#include "strategy/stage_holdings.h"

namespace ztplan {
namespace {

constexpr std::int64_t kFp32 = 4;  // bytes

// Adam in mixed precision: fp32 master, first and second moment. In fp32 the
// weights are their own master. Source: ZeRO, arXiv 1910.02054, section 3.1.
constexpr std::int64_t kMoments = 2 * kFp32;
constexpr std::int64_t kMasterAndMoments = kFp32 + kMoments;

// Weights in fp8 and their transposes, beside the 16-bit ones. Source:
// TransformerEngine, module/base.py (weight workspaces, kept over a step).
constexpr std::int64_t kFp8Copies = 2;

// Parameters stepped at a time under ZeRO 3. Source: DeepSpeed, default
// sub_group_size of stage 3.
constexpr std::int64_t kSubGroup = 1'000'000'000;

// Swap buffers. Source: DeepSpeed, runtime/swap_tensor: 4 sub-groups of fp32
// for the optimizer, 5 buffers of 1e8 elements for parameters.
constexpr std::int64_t kOptimizerSwaps = 4;
constexpr std::int64_t kParameterSwaps = 5;
constexpr std::int64_t kSwapElements = 100'000'000;

constexpr const char* kZero = "ZeRO, arXiv 1910.02054, section 3";
constexpr const char* kInfinity = "DeepSpeed, runtime/swap_tensor";

bool shards_parameters(const Place& p) { return p.strategy.zero >= 3; }

bool parameters_leave(const Place& p) {
  return p.strategy.offload.parameters != OffloadTier::none;
}

bool optimizer_leaves(const Place& p) {
  return p.strategy.offload.optimizer != OffloadTier::none;
}

bool gathers(const Place& p) {
  return shards_parameters(p) || parameters_leave(p);
}

/// Dense or expert parameters of this device, whole or its shard of them.
std::int64_t kept(std::int64_t whole, std::int64_t owned, bool is_sharded) {
  return is_sharded ? owned : whole;
}

void hold_parameters(const Place& p, Ledger& book) {
  if (parameters_leave(p)) return;
  const bool is_sharded = shards_parameters(p);
  const std::int64_t each = p.bytes.parameter;
  const std::int64_t dense = kept(p.share.dense, p.dense_shard, is_sharded);
  const std::int64_t experts =
      kept(p.share.experts, p.expert_shard, is_sharded);
  hold(book, {Term::parameters,
              Tier::device,
              {each * dense},
              Phase::forward,
              Phase::step,
              "weights",
              kZero});
  hold(book, {Term::parameters,
              Tier::device,
              {each * experts},
              Phase::forward,
              Phase::step,
              "expert weights",
              kZero});
}

void hold_fp8_copies(const Place& p, Ledger& book) {
  if (p.setting.workload.precision != Precision::fp8) return;
  const std::int64_t copied =
      gathers(p) ? p.share.largest_layer : p.share.total() - p.share.ends;
  hold(book, {Term::buffers,
              Tier::device,
              {kFp8Copies * copied},
              Phase::forward,
              Phase::step,
              "fp8 weights and their transposes",
              "TransformerEngine, pytorch/module/base.py"});
}

void hold_gradients(const Place& p, Ledger& book) {
  const bool is_sharded = p.strategy.zero >= 2;
  if (is_sharded && optimizer_leaves(p) && p.keeps.gradients_leave_device)
    return;
  const std::int64_t each = p.bytes.gradient;
  const std::int64_t dense = kept(p.share.dense, p.dense_shard, is_sharded);
  const std::int64_t experts =
      kept(p.share.experts, p.expert_shard, is_sharded);
  hold(book, {Term::gradients,
              Tier::device,
              {each * dense},
              Phase::forward,
              Phase::step,
              "gradients",
              kZero});
  hold(book, {Term::gradients,
              Tier::device,
              {each * experts},
              Phase::forward,
              Phase::step,
              "expert gradients",
              kZero});
}

/// Adam reads fp32 gradients: 16-bit ones are copied when it runs.
void hold_step_gradients(const Place& p, Ledger& book) {
  if (p.bytes.gradient == kFp32) return;
  const std::int64_t at_once =
      p.strategy.zero >= 3 ? std::min(p.owned(), kSubGroup) : p.owned();
  hold(book, {Term::buffers,
              Tier::device,
              {kFp32 * at_once},
              Phase::step,
              Phase::step,
              "fp32 gradients of the optimizer step",
              "Megatron-LM, core/optimizer/distrib_optimizer.py"});
}

void hold_optimizer(const Place& p, Ledger& book) {
  if (optimizer_leaves(p)) return;
  const std::int64_t each = p.bytes.optimizer;
  hold(book, {Term::optimizer,
              Tier::device,
              {each * p.dense_shard},
              Phase::forward,
              Phase::step,
              "optimizer states",
              kZero});
  hold(book, {Term::optimizer,
              Tier::device,
              {each * p.expert_shard},
              Phase::forward,
              Phase::step,
              "expert optimizer states",
              kZero});
  hold_step_gradients(p, book);
}

/// The whole stage, from its first forward to its last backward.
void hold_gathered_stage(const Place& p, Ledger& book) {
  const std::int64_t number = activation_bytes(p.setting.workload.precision);
  hold(book, {Term::gathered,
              Tier::device,
              {number * p.share.total()},
              Phase::forward,
              Phase::backward,
              "gathered weights of the stage",
              p.keeps.source});
  hold(book, {Term::gathered,
              Tier::device,
              {kFp32 * p.share.total()},
              Phase::loss,
              Phase::reduce,
              "whole gradients of the stage",
              p.keeps.source});
}

/// One layer at work, the next on its way, and the larger end.
void hold_gathered_layers(const Place& p, Ledger& book) {
  const std::int64_t number = activation_bytes(p.setting.workload.precision);
  hold(book, {Term::gathered,
              Tier::device,
              {2 * number * p.share.largest_layer},
              Phase::forward,
              Phase::backward,
              "gathered weights of two layers",
              p.keeps.source});
  hold(book, {Term::gathered,
              Tier::device,
              {number * p.share.largest_end},
              Phase::forward,
              Phase::backward,
              "gathered embedding or output matrix",
              p.keeps.source});
}

/// Gradients of the piece being differentiated, before they are sharded: as
/// computed, and as the input of the reduction where no bucket takes them.
void hold_whole_gradients(const Place& p, Ledger& book) {
  const std::int64_t number = activation_bytes(p.setting.workload.precision);
  const std::int64_t reduced =
      p.keeps.buckets_sharded == 0 ? p.bytes.gradient : 0;
  const std::int64_t each = number + reduced;
  hold(book, {Term::gathered,
              Tier::device,
              {each * p.share.largest_layer},
              Phase::backward,
              Phase::backward,
              "gradient of one whole layer",
              p.keeps.source});
  if (!p.shape.has_head()) return;
  hold(book, {Term::gathered,
              Tier::device,
              {each * p.share.largest_end},
              Phase::loss,
              Phase::loss,
              "gradient of the output matrix",
              p.keeps.source});
}

/// Elements that move between device and host at a time, twice: one piece
/// moves while the next is filled.
std::int64_t transfer_elements(const Place& p) {
  return 2 * std::min(p.engine.bucket_elements, p.owned());
}

void hold_host_gradients(const Place& p, Ledger& book) {
  const std::int64_t each = p.keeps.host_gradient_bytes;
  hold(book, {Term::gradients,
              Tier::host,
              {each * p.owned()},
              Phase::forward,
              Phase::step,
              "gradients for the optimizer",
              p.keeps.source});
  if (each > 0) return;
  const std::int64_t moved = p.bytes.gradient + p.bytes.parameter;
  hold(book, {Term::buffers,
              Tier::host,
              {moved * transfer_elements(p)},
              Phase::forward,
              Phase::step,
              "pinned transfer buffers",
              p.keeps.source});
}

void hold_optimizer_on_host(const Place& p, Ledger& book) {
  hold(book, {Term::optimizer,
              Tier::host,
              {p.bytes.optimizer * p.owned()},
              Phase::forward,
              Phase::step,
              "optimizer states",
              kZero});
  hold_host_gradients(p, book);
}

/// States and their fp32 gradients live on the drive, pieces in memory.
void hold_optimizer_on_nvme(const Place& p, Ledger& book) {
  const std::int64_t piece = std::min(p.owned(), kSubGroup);
  hold(book, {Term::optimizer,
              Tier::nvme,
              {p.bytes.optimizer * p.owned()},
              Phase::forward,
              Phase::step,
              "optimizer states",
              kInfinity});
  hold(book, {Term::gradients,
              Tier::nvme,
              {kFp32 * p.owned()},
              Phase::forward,
              Phase::step,
              "fp32 gradients",
              kInfinity});
  hold(book, {Term::buffers,
              Tier::host,
              {kOptimizerSwaps * kFp32 * piece},
              Phase::forward,
              Phase::step,
              "optimizer swap buffers",
              kInfinity});
}

void hold_parameters_away(const Place& p, Ledger& book) {
  const std::int64_t each = p.bytes.parameter;
  const std::int64_t kept_here =
      shards_parameters(p) ? p.owned() : p.share.total();
  if (p.strategy.offload.parameters == OffloadTier::cpu) {
    hold(book, {Term::parameters,
                Tier::host,
                {each * kept_here},
                Phase::forward,
                Phase::step,
                "weights",
                kZero});
    return;
  }
  const std::int64_t piece = std::min(kept_here, kSwapElements);
  hold(book, {Term::parameters,
              Tier::nvme,
              {each * kept_here},
              Phase::forward,
              Phase::step,
              "weights",
              kInfinity});
  hold(book, {Term::buffers,
              Tier::host,
              {kParameterSwaps * each * piece},
              Phase::forward,
              Phase::step,
              "weight swap buffers",
              kInfinity});
}

}  // namespace

StateBytes state_bytes(const Workload& workload, const EngineMemory& keeps,
                       const Strategy& strategy) {
  const std::int64_t number = activation_bytes(workload.precision);
  if (number == kFp32) return {kFp32, kFp32, kMoments};
  if (keeps.shards_are_master && strategy.zero >= 3)
    return {kFp32, kFp32, kMoments};
  const std::int64_t gradient = activation_bytes(workload.gradient);
  return {number, gradient, kMasterAndMoments};
}

void hold_states(const Place& p, Ledger& book) {
  hold_parameters(p, book);
  hold_fp8_copies(p, book);
  hold_gradients(p, book);
  hold_optimizer(p, book);
}

void hold_gathered(const Place& p, Ledger& book) {
  const bool whole_stage = p.keeps.keeps_stage_gathered &&
                           p.strategy.pipeline > 1 && shards_parameters(p);
  if (whole_stage) return hold_gathered_stage(p, book);
  if (gathers(p)) hold_gathered_layers(p, book);
  if (p.strategy.zero >= 2) hold_whole_gradients(p, book);
}

void hold_offloaded(const Place& p, Ledger& book) {
  if (parameters_leave(p)) hold_parameters_away(p, book);
  if (!optimizer_leaves(p)) return;
  const std::int64_t number = activation_bytes(p.setting.workload.precision);
  hold(book, {Term::buffers,
              Tier::device,
              {number * transfer_elements(p)},
              Phase::step,
              Phase::step,
              "updated weights on their way back",
              p.keeps.source});
  if (p.strategy.offload.optimizer == OffloadTier::cpu)
    hold_optimizer_on_host(p, book);
  else
    hold_optimizer_on_nvme(p, book);
}

}  // namespace ztplan
