// The parts a ledger is written from: states, activations, overhead. Inner to
// ledger.h; each part adds its holdings and reads no other's.
#pragma once

#include "strategy/engine_memory.h"
#include "strategy/ledger.h"

namespace ztplan {

/// Bytes a parameter takes on a device that owns it.
struct StateBytes {
  std::int64_t parameter = 0;
  std::int64_t gradient = 0;
  std::int64_t optimizer = 0;
};
StateBytes state_bytes(const Workload& workload, const EngineMemory& keeps,
                       const Strategy& strategy);

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
  std::int64_t dense_shard;   // parameters owned under ZeRO
  std::int64_t expert_shard;  // likewise
  std::int64_t owned() const { return dense_shard + expert_shard; }
};

/// Adds a holding unless it is empty.
void hold(Ledger& book, const Holding& holding);

void hold_states(const Place& place, Ledger& book);
void hold_gathered(const Place& place, Ledger& book);
void hold_offloaded(const Place& place, Ledger& book);
void hold_activations(const Place& place, Ledger& book);
void hold_loss(const Place& place, Ledger& book);
void hold_buffers(const Place& place, Ledger& book);
/// Context, communicators and the allocator's slack: last, for it looks at the
/// tensors already in `book`.
void hold_overhead(const Place& place, Ledger& book);

/// CUDA context with its communicators, as in `hold_overhead`.
Bytes context_bytes();
Bytes communicator_bytes(const ClusterSpec& cluster, const Strategy& strategy);

}  // namespace ztplan
