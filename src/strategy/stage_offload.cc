#include <algorithm>
#include <bit>

#include "strategy/stage_holdings.h"

namespace ztplan {
namespace {

// Swap buffers: 4 sub-groups of fp32 for the optimizer, 5 buffers of 1e8
// elements for parameters. Source: DeepSpeed, runtime/zero/offload_config.py.
constexpr std::int64_t kOptimizerSwaps = 4;
constexpr std::int64_t kParameterSwaps = 5;
constexpr std::int64_t kSwapElements = 100'000'000;

constexpr const char* kInfinity = "DeepSpeed, runtime/swap_tensor";

/// Elements that move between device and host at a time, twice: one piece
/// moves while the next is filled.
std::int64_t transfer_elements(const Place& p) {
  const std::int64_t bucket =
      p.strategy.tuning.bucket.value_or(p.engine.bucket_elements);
  return 2 * std::min(bucket, p.owned());
}

/// All of them where the engine keeps them, or the pieces that pass by.
void hold_host_gradients(const Place& p, Ledger& book) {
  const std::int64_t each = p.keeps.host_gradient_bytes;
  if (each > 0) {
    hold(book, on_host(Term::gradients, each * p.owned(),
                       "gradients for the optimizer", p.keeps.source));
    if (adds_shards(p))
      hold(book, on_host(Term::gradients, p.number() * p.owned(),
                         "accumulated gradients", kStage2));
    return;
  }
  const std::int64_t moved = p.bytes.gradient + p.bytes.parameter;
  hold(book, on_host(Term::buffers, moved * transfer_elements(p),
                     "pinned transfer buffers", p.keeps.source));
}

void hold_optimizer_on_host(const Place& p, Ledger& book) {
  hold(book, on_host(Term::optimizer, p.bytes.optimizer * p.owned(),
                     "optimizer states", kZeroSource));
  hold_host_gradients(p, book);
}

/// States and their fp32 gradients live on the drive, pieces in memory.
void hold_optimizer_on_nvme(const Place& p, Ledger& book) {
  const std::int64_t piece = std::min(p.owned(), kSubGroup);
  hold(book, on_nvme(Term::optimizer, p.bytes.optimizer * p.owned(),
                     "optimizer states", kInfinity));
  hold(book, on_nvme(Term::gradients, kFp32Bytes * p.owned(), "fp32 gradients",
                     kInfinity));
  hold(book, on_host(Term::buffers, kOptimizerSwaps * kFp32Bytes * piece,
                     "optimizer swap buffers", kInfinity));
}

void hold_parameters_away(const Place& p, Ledger& book) {
  const std::int64_t each = p.bytes.parameter;
  const std::int64_t kept =
      p.shards_parameters() ? p.owned_weights() : p.share.total();
  if (p.strategy.offload.parameters == OffloadTier::cpu) {
    hold(book, on_host(Term::parameters, each * kept, "weights", kZeroSource));
    return;
  }
  const std::int64_t piece = std::min(kept, kSwapElements);
  hold(book, on_nvme(Term::parameters, each * kept, "weights", kInfinity));
  hold(book, on_host(Term::buffers, kParameterSwaps * each * piece,
                     "weight swap buffers", kInfinity));
}

/// What a page-locked block of `bytes` takes beyond them: PyTorch rounds each
/// up to a power of two. Source: aten/src/ATen/core/CachingHostAllocator.h
/// (PowerOf2Ceil).
std::int64_t rounding(std::int64_t bytes) {
  if (bytes <= 0 || bytes >= kBeyond) return 0;
  const auto block = std::bit_ceil(static_cast<std::uint64_t>(bytes));
  return static_cast<std::int64_t>(block) - bytes;
}

/// Of `elements` in blocks of a sub-group.
std::int64_t sub_group_rounding(std::int64_t elements, std::int64_t each) {
  return elements / kSubGroup * rounding(each * kSubGroup) +
         rounding(each * (elements % kSubGroup));
}

/// Flat blocks of the optimizer in host memory. Below ZeRO 3 master weights,
/// their fp32 gradients and a 16-bit buffer; at ZeRO 3 all 16-bit gradients,
/// and fp32 ones by sub-group. Source: DeepSpeed, runtime/zero/
/// stage_1_and_2.py and stage3.py (pin_memory).
std::int64_t flat_optimizer_rounding(const Place& p) {
  const std::int64_t owned = p.owned();
  const std::int64_t narrow = rounding(p.number() * owned);
  if (p.shards_parameters())
    return narrow + sub_group_rounding(owned, kFp32Bytes);
  return narrow + 2 * rounding(kFp32Bytes * owned);
}

/// Of all that DeepSpeed pins; on a drive, of the buffers that are swapped:
/// each its own for the optimizer, one for weights.
std::int64_t flat_rounding(const Place& p) {
  const Offload& offload = p.strategy.offload;
  std::int64_t sum = 0;
  if (offload.optimizer == OffloadTier::cpu) sum += flat_optimizer_rounding(p);
  if (offload.optimizer == OffloadTier::nvme)
    sum +=
        kOptimizerSwaps * rounding(kFp32Bytes * std::min(p.owned(), kSubGroup));
  const std::int64_t kept = p.owned_weights();
  if (offload.parameters == OffloadTier::cpu)
    sum += rounding(p.bytes.parameter * kept);
  if (offload.parameters == OffloadTier::nvme)
    sum += rounding(kParameterSwaps * p.bytes.parameter *
                    std::min(kept, kSwapElements));
  return sum;
}

/// Of a shard of each tensor, `each` bytes an element.
std::int64_t tensor_rounding(const Place& p, const TensorList& tensors,
                             std::int64_t each) {
  std::int64_t sum = 0;
  for (const ParameterTensors& one : tensors)
    sum +=
        one.count * rounding(each * divide_up(one.elements, p.shard_parts()));
  return sum;
}

std::int64_t stage_tensor_rounding(const Place& p, std::int64_t each) {
  std::int64_t sum = 0;
  for (const ChunkShape& chunk : p.shape.chunks)
    for (std::size_t kind = 0; kind < chunk.layers_of_kind.size(); ++kind)
      sum += chunk.layers_of_kind[kind] *
             tensor_rounding(p, p.sizes.tensors[kind], each);
  if (p.shape.has_embedding())
    sum += tensor_rounding(p, p.sizes.embedding_tensors, each);
  if (!p.shape.has_head()) return sum;
  const TensorList head = {{1, p.sizes.end_share.head}};
  if (!p.setting.model.tied) sum += tensor_rounding(p, head, each);
  return sum + tensor_rounding(p, p.sizes.norm_tensors, each);
}

/// Shards of weights and of their gradients, each tensor by itself. Source:
/// torch, distributed/fsdp/_fully_shard/_fsdp_param.py (pin_memory).
std::int64_t parameter_rounding(const Place& p) {
  if (!p.parameters_leave() || p.setting.workload.quantize != Quantize::none)
    return 0;
  const std::int64_t weights = stage_tensor_rounding(p, p.bytes.parameter);
  const bool is_frozen = p.setting.workload.adapters.any();
  return is_frozen ? weights
                   : weights + stage_tensor_rounding(p, p.bytes.gradient);
}

void hold_rounding(const Place& p, Ledger& book) {
  std::int64_t bytes = 0;
  if (p.keeps.pinned == Pinned::flat) bytes = flat_rounding(p);
  if (p.keeps.pinned == Pinned::parameters) bytes = parameter_rounding(p);
  Holding holding = on_host(
      Term::buffers, bytes, "pinned blocks, rounded up to powers of two",
      "PyTorch, aten/src/ATen/core/CachingHostAllocator.h");
  holding.meter = Meter::reserved;
  hold(book, holding);
}

}  // namespace

void hold_offloaded(const Place& p, Ledger& book) {
  hold_rounding(p, book);
  if (p.parameters_leave()) hold_parameters_away(p, book);
  if (!p.optimizer_leaves()) return;
  hold(book, on_device(Term::buffers, p.number() * transfer_elements(p),
                       {Phase::step, Phase::step},
                       "updated weights on their way back", p.keeps.source));
  if (p.strategy.offload.optimizer == OffloadTier::cpu)
    hold_optimizer_on_host(p, book);
  else
    hold_optimizer_on_nvme(p, book);
}

}  // namespace ztplan
