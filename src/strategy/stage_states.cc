#include <algorithm>
#include <limits>

#include "strategy/stage_holdings.h"

namespace ztplan {
namespace {

// Weights in fp8 and their transposes, beside the 16-bit ones. Source:
// TransformerEngine, module/base.py (weight workspaces, kept over a step) and
// tensor/mxfp8_tensor.py (rows and columns are scaled apart).
constexpr std::int64_t kNarrowCopies = 2;

/// Bytes of the states beside the master weights. Adam, LAMB: two moments;
/// momentum, Adagrad, Lion: one; Muon: one for its matrices. 8-bit Adam: one
/// byte a moment (bitsandbytes; its scales, 4 bytes a block of 256, are left
/// out).
std::int64_t moment_bytes(OptimizerKind optimizer, Precision dtype) {
  const std::int64_t each = activation_bytes(dtype);
  switch (optimizer) {
    case OptimizerKind::adam:
    case OptimizerKind::lamb:
      return 2 * each;
    case OptimizerKind::adam8bit:
      return 2;
    case OptimizerKind::momentum:
    case OptimizerKind::adagrad:
    case OptimizerKind::lion:
    case OptimizerKind::muon:
      return each;
    case OptimizerKind::sgd:
      break;
  }
  return 0;
}

bool gathers(const Place& p) {
  return p.shards_parameters() || p.parameters_leave();
}

/// A state of dense and of expert parameters.
struct State {
  Term term;
  std::int64_t dense, experts;  // bytes
  Lifetime life;
  const char *what, *what_experts;
};

void hold_state(Ledger& book, const State& state) {
  hold(book,
       on_device(state.term, state.dense, state.life, state.what, kZeroSource));
  hold(book, on_device(state.term, state.experts, state.life,
                       state.what_experts, kZeroSource));
}

/// Frozen weights of linear layers, quantized; the ends keep their dtype.
void hold_quantized(const Place& p, Ledger& book) {
  const bool is_cut = p.shards_parameters();
  const std::int64_t ends =
      is_cut ? divide_up(p.share.ends, p.shard_parts()) : p.share.ends;
  const std::int64_t all = is_cut ? p.owned_weights() : p.share.total();
  const Bytes linear = quantized_bytes(p.setting.workload.quantize,
                                       std::max<std::int64_t>(0, all - ends));
  hold(book, on_device(Term::parameters, linear.value, kWholeStep,
                       "quantized weights", "QLoRA, arXiv 2305.14314"));
  hold(book, on_device(Term::parameters, p.bytes.parameter * ends, kWholeStep,
                       "embedding and output matrix", kZeroSource));
}

void hold_weights(const Place& p, Ledger& book) {
  if (p.setting.workload.quantize != Quantize::none)
    return hold_quantized(p, book);
  const LayerShare& held = p.shards_parameters() ? p.shard : p.share.all;
  hold_state(book, {Term::parameters, p.bytes.parameter * held.dense,
                    p.bytes.parameter * held.experts, kWholeStep, "weights",
                    "expert weights"});
}

void hold_adapters(const Place& p, Ledger& book) {
  if (!p.setting.workload.adapters.any()) return;
  const LayerShare& held = p.shards_parameters() ? p.shard : p.share.all;
  hold(book, on_device(Term::parameters,
                       p.bytes.parameter *
                           (held.trained_dense + held.trained_experts),
                       kWholeStep, "adapters", "LoRA, arXiv 2106.09685"));
}

/// Small parameters of ZeRO 3, whole beside their shards, wherever those are; a
/// shard on the device that is the whole is not copied. Source: DeepSpeed,
/// runtime/zero/partition_parameters.py (NoGatherHandle).
void hold_persistent(const Place& p, Ledger& book) {
  const bool is_whole = p.shard_parts() == 1 && !p.parameters_leave();
  if (!p.shards_parameters() || is_whole) return;
  hold(book, on_device(Term::parameters, p.number() * p.share.all.persistent,
                       kWholeStep, "small parameters, whole",
                       "DeepSpeed, runtime/zero/parameter_offload.py"));
}

void hold_parameters(const Place& p, Ledger& book) {
  hold_adapters(p, book);
  hold_persistent(p, book);
  if (!p.parameters_leave()) hold_weights(p, book);
}

/// With a scale of a byte for every 16 weights.
void hold_fp4_copies(const Place& p, Ledger& book) {
  const std::int64_t copied =
      gathers(p) ? p.share.largest_layer : p.share.total() - p.share.ends;
  constexpr std::int64_t kBits = 4, kScaled = 16, kByte = 8;
  hold(book,
       on_device(Term::buffers,
                 kNarrowCopies * (copied * kBits / kByte + copied / kScaled),
                 kWholeStep, "fp4 weights and their transposes",
                 "TransformerEngine, pytorch/tensor/nvfp4_tensor.py"));
}

/// Beside wider weights, copies in fp8 or fp4 and their transposes; beside
/// weights stored in fp8, their transposes. Of the layer at work where it is
/// gathered.
void hold_narrow_copies(const Place& p, Ledger& book) {
  const Workload& w = p.setting.workload;
  if (w.precision == Precision::fp4) return hold_fp4_copies(p, book);
  if (w.precision != Precision::fp8) return;
  const bool is_primary = w.parameter == Precision::fp8;
  const std::int64_t copied =
      gathers(p) ? p.share.largest_layer : p.share.total() - p.share.ends;
  const std::int64_t copies = is_primary ? 1 : kNarrowCopies;
  hold(book, on_device(Term::buffers, copies * copied, kWholeStep,
                       is_primary ? "fp8 transposes"
                                  : "fp8 weights and their transposes",
                       "TransformerEngine, pytorch/module/base.py"));
}

/// A gradient as it is computed, where it is added to an fp32 one and kept;
/// and a copy of all of them while they are reduced.
void hold_narrow_gradients(const Place& p, Ledger& book) {
  const bool kept = p.keeps.narrow_gradients && !p.shards_gradients() &&
                    p.bytes.gradient > p.number();
  if (!kept) return;
  const std::int64_t bytes = p.number() * p.share.trained();
  hold(book, on_device(Term::gradients, bytes, kWholeStep, "16-bit gradients",
                       p.keeps.source));
  hold(book, on_device(Term::buffers, bytes, {Phase::reduce, Phase::reduce},
                       "16-bit copy that is reduced", p.keeps.source));
}

void hold_gradients(const Place& p, Ledger& book) {
  const bool away = p.shards_gradients() && p.optimizer_leaves() &&
                    p.keeps.gradients_leave_device;
  const bool replace = p.keeps.gradients_replace_weights &&
                       p.shards_parameters() && p.bytes.has_master &&
                       p.micro_batches == 1;
  if (away || replace) return;
  const LayerShare& held = p.shards_gradients() ? p.shard : p.share.all;
  const Lifetime life = allocates_gradients(p)
                            ? Lifetime{Phase::reduce, Phase::step}
                            : kWholeStep;
  hold_state(book, {Term::gradients, p.bytes.gradient * held.trained_dense,
                    p.bytes.gradient * held.trained_experts, life, "gradients",
                    "expert gradients"});
  if (adds_shards(p))
    hold(book, on_device(Term::buffers, p.bytes.gradient * p.owned(),
                         {Phase::reduce, Phase::reduce},
                         "gradients before they are added", kStage2));
  hold_narrow_gradients(p, book);
}

/// Bytes of `count` gradients on their way to Adam in flat tensors: as they are
/// and in fp32, or in fp32 twice without ZeRO; before it, the norm of the
/// largest is taken in fp64. Source: DeepSpeed, runtime/zero/stage_1_and_2.py
/// (step, get_grad_norm_direct), runtime/fp16/fused_optimizer.py (step).
std::int64_t flat_step_bytes(const Place& p, std::int64_t count) {
  constexpr std::int64_t kFp64Bytes = 8;
  if (p.strategy.zero == 0) return 2 * kFp32Bytes * count;
  return std::max((p.number() + kFp32Bytes) * count,
                  kFp64Bytes * std::min(count, p.share.largest_end));
}

/// Adam reads fp32 gradients: 16-bit ones are copied when it runs.
void hold_step_gradients(const Place& p, Ledger& book) {
  if (p.bytes.gradient == kFp32Bytes || !p.bytes.has_master) return;
  const std::int64_t at_once =
      p.shards_parameters() ? std::min(p.owned(), kSubGroup) : p.owned();
  const std::int64_t bytes =
      p.keeps.flattens ? flat_step_bytes(p, at_once) : kFp32Bytes * at_once;
  hold(book,
       on_device(Term::buffers, bytes, {Phase::step, Phase::step},
                 "fp32 gradients of the optimizer step",
                 p.keeps.flattens
                     ? p.keeps.source
                     : "Megatron-LM, core/optimizer/distrib_optimizer.py"));
}

void hold_optimizer(const Place& p, Ledger& book) {
  if (p.optimizer_leaves()) return;
  hold_state(book, {Term::optimizer, p.bytes.optimizer * p.shard.trained_dense,
                    p.bytes.optimizer * p.shard.trained_experts, kWholeStep,
                    "optimizer states", "expert optimizer states"});
  hold_step_gradients(p, book);
}

/// Bytes of a gradient as the input of its reduction, where no bucket takes it:
/// those of the dtype it travels in, or its place in the permanent buffer.
std::int64_t reduced_bytes(const Place& p) {
  if (p.keeps.buckets_sharded > 0) return 0;
  if (!p.keeps.shards_are_master) return p.bytes.gradient;
  return travelling_bytes(p.setting.workload, p.strategy, 1).value;
}

/// The whole stage, from its first forward to its last backward.
void hold_gathered_stage(const Place& p, Ledger& book) {
  if (p.shards_parameters())
    hold(book, on_device(Term::gathered, p.number() * p.share.total(), kPasses,
                         "gathered weights of the stage", p.keeps.source));
  hold(book, on_device(Term::gathered, reduced_bytes(p) * p.share.trained(),
                       {Phase::loss, Phase::reduce},
                       "whole gradients of the stage", p.keeps.source));
}

/// Elements an engine gathers ahead of the module at work, but for the bound
/// on all that is gathered.
std::int64_t gathered_ahead(const Place& p) {
  const Tuning& tuning = p.strategy.tuning;
  const std::int64_t ahead =
      std::min(tuning.prefetch.value_or(p.keeps.prefetch),
               tuning.live.value_or(std::numeric_limits<std::int64_t>::max()));
  return std::min(ahead, p.share.total() - p.share.all.persistent);
}

/// Bytes of `count` weights of layers as they are gathered.
std::int64_t gathered_bytes(const Place& p, std::int64_t count) {
  const Quantize quantize = p.setting.workload.quantize;
  return quantize == Quantize::none ? p.number() * count
                                    : quantized_bytes(quantize, count).value;
}

/// A matrix is brought back to 16 bits when it is multiplied.
void hold_dequantized(const Place& p, Ledger& book) {
  if (p.setting.workload.quantize == Quantize::none) return;
  std::int64_t widest = 0;
  for (const LayerGroup& group : p.setting.model.layers) {
    const FeedForward& f = group.layer.ffn;
    widest =
        std::max<std::int64_t>(widest, f.is_moe() ? f.expert_width : f.width);
  }
  const std::int64_t elements =
      divide_up(widest * p.setting.model.hidden, p.strategy.tensor);
  hold(book, on_device(Term::gathered, p.number() * elements, kPasses,
                       "one matrix, dequantized", "QLoRA, arXiv 2305.14314"));
}

/// One layer at work, the next on its way, and the larger end.
void hold_gathered_layers(const Place& p, Ledger& book) {
  hold(book, on_device(Term::gathered,
                       gathered_bytes(p, 2 * p.share.largest_gathered), kPasses,
                       "gathered weights of two layers", p.keeps.source));
  hold(book, on_device(Term::gathered, p.number() * gathered_ahead(p), kPasses,
                       "prefetched weights", p.keeps.source));
  hold(book,
       on_device(Term::gathered, p.number() * p.share.largest_end, kPasses,
                 "gathered embedding or output matrix", p.keeps.source));
}

/// A copy of the weights inside a group smaller than the one that shards them,
/// from the first forward on; and int8 weights on their way. Source: Wang et
/// al. 2023, arXiv 2306.10209 (ZeRO++), sections 3.1 and 3.2.
void hold_zero_plus_plus(const Place& p, Ledger& book) {
  const Tuning& tuning = p.strategy.tuning;
  if (tuning.secondary > 0)
    hold(book,
         on_device(Term::gathered,
                   p.number() * divide_up(p.share.total(), tuning.secondary),
                   {Phase::forward, Phase::reduce}, "secondary partition (hpZ)",
                   "arXiv 2306.10209"));
  if (tuning.quantized_weights)
    hold(book,
         on_device(Term::gathered, p.share.largest_layer, kPasses,
                   "int8 weights on their way (qwZ)", "arXiv 2306.10209"));
}

/// Gradients of the piece being differentiated, before they are sharded: as
/// computed, and as the input of the reduction where no bucket takes them.
void hold_whole_gradients(const Place& p, Ledger& book) {
  const std::int64_t each = p.number() + reduced_bytes(p);
  hold(book, on_device(Term::gathered, each * p.share.largest_trained,
                       {Phase::backward, Phase::backward},
                       "gradient of one whole layer", p.keeps.source));
  const bool is_frozen = p.setting.workload.adapters.any();
  if (!p.shape.has_head() || is_frozen) return;
  hold(book, on_device(Term::gathered, each * p.share.largest_end,
                       {Phase::loss, Phase::loss},
                       "gradient of the output matrix", p.keeps.source));
}

/// Sums over micro-batches that are not reduced yet, in the dtype in which they
/// will be: torch, FSDPModule.set_requires_gradient_sync.
void hold_whole_sums(const Place& p, Ledger& book) {
  if (!sums_whole(p)) return;
  const Bytes each = travelling_bytes(p.setting.workload, p.strategy, 1);
  hold(book, on_device(Term::gradients, each.value * p.share.trained(), kPasses,
                       "whole gradients of earlier micro-batches",
                       "PyTorch: distributed/fsdp/_fully_shard/"
                       "_fully_shard.py, set_requires_gradient_sync"));
}

}  // namespace

Precision default_gradient(const EngineMemory& keeps,
                           const Framework& framework, Precision precision) {
  const bool is_narrow = framework.narrow_bf16_gradients &&
                         precision != Precision::fp16 &&
                         precision != Precision::fp32;
  if (is_narrow) return Precision::bf16;
  switch (precision) {
    case Precision::fp16:
      return keeps.wide_gradients && !framework.narrow_fp16_gradients
                 ? Precision::fp32
                 : precision;
    case Precision::bf16:
      return keeps.wide_gradients || framework.wide_bf16_gradients
                 ? Precision::fp32
                 : precision;
    case Precision::fp32:
    case Precision::fp8:
    case Precision::fp4:
      break;
  }
  return Precision::fp32;
}

StateBytes state_bytes(const Workload& workload, const EngineMemory& keeps,
                       const Strategy& strategy) {
  const std::int64_t number = activation_bytes(workload.precision);
  const bool shards_are_stored =
      keeps.shards_are_master && strategy.zero >= kShardedParameters;
  // Frozen weights need no master: they stay as they were loaded.
  const bool is_frozen = workload.adapters.any();
  const Precision usual =
      shards_are_stored && !is_frozen ? Precision::fp32 : workload.precision;
  const Precision stored = workload.parameter.value_or(usual);
  const std::int64_t moments =
      moment_bytes(workload.optimizer, workload.moments);
  const bool is_fp32 = number == kFp32Bytes || stored == Precision::fp32;
  if (is_fp32) return {kFp32Bytes, kFp32Bytes, moments};
  // Without a master the optimizer's states take the dtype of the weights. An
  // engine whose shards are the masters keeps no other where the user says what
  // weights are stored in.
  const bool is_own_master =
      shards_are_stored || (keeps.shards_are_master && workload.parameter);
  const bool is_pure = is_own_master && !is_frozen && stored != Precision::fp8;
  if (is_pure)
    return {number, number, moment_bytes(workload.optimizer, stored)};
  const std::int64_t parameter =
      stored == Precision::fp8 && workload.parameter ? 1 : number;
  return {parameter, activation_bytes(workload.gradient), kFp32Bytes + moments,
          true};
}

void hold_states(const Place& p, Ledger& book) {
  hold_parameters(p, book);
  hold_narrow_copies(p, book);
  hold_gradients(p, book);
  hold_optimizer(p, book);
}

void hold_gathered(const Place& p, Ledger& book) {
  if (keeps_stage_whole(p.engine, p.strategy))
    return hold_gathered_stage(p, book);
  hold_dequantized(p, book);
  if (gathers(p)) hold_gathered_layers(p, book);
  hold_zero_plus_plus(p, book);
  if (p.shards_gradients()) hold_whole_gradients(p, book);
  hold_whole_sums(p, book);
}

}  // namespace ztplan
