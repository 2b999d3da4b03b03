// The parts a ledger is written from: states, activations, overhead. Inner to
// ledger.h; each part adds its holdings and reads no other's.
#pragma once

#include <algorithm>
#include <array>

#include "strategy/capped.h"
#include "strategy/engine_memory.h"
#include "strategy/ledger.h"

namespace ztplan {

constexpr std::int64_t kFp32Bytes = 4;

// Parameters stepped at a time under ZeRO 3, and swapped at a time from a
// drive. Source: DeepSpeed, default sub_group_size of stage 3.
constexpr std::int64_t kSubGroup = 1'000'000'000;

constexpr const char* kZeroSource = "ZeRO, arXiv 1910.02054, section 3";

/// What one rank owns of `share` under ZeRO.
LayerShare shard_of(const LayerShare& share, const Strategy& strategy);

/// One device of one stage, and all its holdings are made from.
struct Place {
  const Setting& setting;
  const Engine& engine;
  const EngineMemory& keeps;
  const StageSizes& sizes;
  const StageShape& shape;
  const Strategy& strategy;
  int stage;
  std::int64_t micro_batches;
  StageShare share;
  StateBytes bytes;
  LayerShare shard;  // of `share`, what this device owns under ZeRO
  /// Trained parameters, and all of them, that this device owns.
  std::int64_t owned() const {
    return shard.trained_dense + shard.trained_experts;
  }
  std::int64_t owned_weights() const { return shard.dense + shard.experts; }
  /// Ranks that share dense states.
  std::int64_t shard_parts() const { return zero_group(strategy); }
  /// Bytes of a number in forward and backward.
  std::int64_t number() const {
    return activation_bytes(setting.workload.precision);
  }
  bool shards_gradients() const { return strategy.zero >= kShardedGradients; }
  bool shards_parameters() const {
    return shards_weights(setting.workload, engine, strategy);
  }
  bool parameters_leave() const {
    return strategy.offload.parameters != OffloadTier::none;
  }
  bool optimizer_leaves() const {
    return strategy.offload.optimizer != OffloadTier::none;
  }
};

/// From one phase through another.
struct Lifetime {
  Phase from, until;
};
constexpr Lifetime kWholeStep{Phase::forward, Phase::step};
constexpr Lifetime kPasses{Phase::forward, Phase::backward};

constexpr Holding on_device(Term term, std::int64_t bytes, Lifetime life,
                            const char* what, const char* source) {
  return {term, Tier::device, {bytes}, life.from, life.until, what, source};
}
constexpr Holding on_host(Term term, std::int64_t bytes, const char* what,
                          const char* source) {
  return {term, Tier::host, {bytes}, Phase::forward, Phase::step, what, source};
}
constexpr Holding on_nvme(Term term, std::int64_t bytes, const char* what,
                          const char* source) {
  return {term, Tier::nvme, {bytes}, Phase::forward, Phase::step, what, source};
}

/// Bytes by phase, summed as changes between phases: two additions a holding.
class PhaseSums {
 public:
  void add(const Holding& holding) {
    changes_[static_cast<std::size_t>(holding.from)] += holding.bytes;
    changes_[static_cast<std::size_t>(holding.until) + 1] -= holding.bytes;
  }
  std::array<Bytes, kPhases> totals() const {
    std::array<Bytes, kPhases> sums;
    Bytes sum;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = sum += changes_[i];
    return sums;
  }

 private:
  std::array<Bytes, kPhases + 1> changes_{};
};

/// Adds a holding unless it is empty. No more than `kBeyond` bytes, so that
/// whatever is added up later does not overflow.
inline void hold(Ledger& book, Holding holding) {
  holding.bytes = std::min(holding.bytes, Bytes{kBeyond});
  if (holding.bytes.value > 0) book.push_back(holding);
}

/// Whether gradients of micro-batches are summed whole before they are sharded.
inline bool sums_whole(const Place& p) {
  return p.shards_gradients() && p.micro_batches > 1 &&
         p.setting.workload.framework.reduces_once;
}

/// Whether this step's backward allocates sharded gradients: nothing of an
/// earlier micro-batch holds them.
inline bool allocates_gradients(const Place& p) {
  return p.strategy.zero <= p.keeps.frees_gradients_through &&
         p.shards_gradients() && (p.micro_batches == 1 || sums_whole(p)) &&
         !p.optimizer_leaves();
}

/// Whether a micro-batch has a gradient shard of its own beside the kept one.
inline bool adds_shards(const Place& p) {
  return p.keeps.adds_shards && p.strategy.zero == kShardedGradients &&
         p.micro_batches > 1;
}

constexpr const char* kStage2 = "DeepSpeed, runtime/zero/stage_1_and_2.py";

/// All but activations and overhead of ztplan's own executor, on every tier.
void hold_native(const Place& place, Ledger& book);
void hold_states(const Place& place, Ledger& book);
void hold_gathered(const Place& place, Ledger& book);
void hold_offloaded(const Place& place, Ledger& book);
void hold_activations(const Place& place, Ledger& book);
void hold_loss(const Place& place, Ledger& book);
void hold_boundaries(const Place& place, Ledger& book);
void hold_buffers(const Place& place, Ledger& book);
/// Context, communicators and the allocator's slack: last, for it looks at the
/// tensors already in `book`.
void hold_overhead(const Place& place, Ledger& book);

/// CUDA context with its communicators, as in `hold_overhead`.
Bytes context_bytes(const Framework& framework);
Bytes communicator_bytes(const ClusterSpec& cluster, const Strategy& strategy,
                         const EngineMemory& keeps);

}  // namespace ztplan
