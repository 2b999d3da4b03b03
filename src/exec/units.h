// What one stage holds, unit by unit, and where each unit's flat buffers lie
// among those of the stage: first all dense ones, then all of experts, each in
// the order of execution.
#pragma once

#include <memory>
#include <vector>

#include "exec/native_layer.h"
#include "strategy/engine.h"
#include "strategy/stages.h"

namespace ztplan {

/// Ranks that hold equal weights, those among them that share their states, and
/// those that hold equal shares: of dense parameters or of experts.
struct Holders {
  Peers whole, shards, replicas;
};

/// One flat buffer of a unit. Sizes and places in elements.
struct FlatState {
  Flat flat;
  std::int64_t padded = 0;    // to equal shards
  std::int64_t shard = 0;     // of one rank; all of it without ZeRO
  std::int64_t whole_at = 0;  // among the whole buffers of the stage
  std::int64_t shard_at = 0;  // among this rank's shards
  std::int64_t unit_at = 0;   // among its unit's own
  bool borrowed = false;      // another unit's: a tied head on its stage
};

enum class UnitKind { embedding, layer, head };

struct Unit {
  UnitKind kind = UnitKind::layer;
  int chunk = 0;
  std::vector<FlatState> flats;  // layer: dense, experts if any; embedding:
                                 // table, positions; head: norm, table
  std::unique_ptr<NativeLayer> layer;
  std::int64_t padded() const;
};

struct StageUnits {
  std::vector<std::vector<Unit>> chunks;  // units of each chunk, in order
  std::int64_t whole = 0;                 // elements of all whole buffers
  std::int64_t dense = 0;                 // of those, before the experts'
  std::int64_t shards = 0;                // of all of this rank's shards
  std::int64_t largest = 0;               // padded elements of a unit
};

/// Units of `stage`, whose layers and ends are `shape`. `context` outlives
/// them.
StageUnits stage_units(const RankContext& context, const Engine& engine,
                       int stage);

/// Runs of a unit's parameters that this rank owns, in elements of the whole
/// flat buffer: `decays` tells matrices from vectors, `whole` what every tensor
/// rank holds equally.
struct OwnedRange {
  std::int64_t from = 0, size = 0;
  bool decays = false, whole = false;
};
std::vector<OwnedRange> owned_ranges(const FlatState& state, int shard_rank);

}  // namespace ztplan
