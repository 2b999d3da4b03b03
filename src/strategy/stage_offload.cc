#include <algorithm>

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

}  // namespace

void hold_offloaded(const Place& p, Ledger& book) {
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
