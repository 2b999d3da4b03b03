// A chunk of layers cut into pieces that run as one task each: whole for most
// passes, bucket by bucket where gradients are reduced behind backward, unit by
// unit where parameters are gathered.
#pragma once

#include <vector>

#include "step/recipe.h"
#include "strategy/ledger.h"

namespace ztplan {

/// A flat buffer of an executor: its parameters on one device before ZeRO cuts
/// them, those that every tensor rank holds whole, and whether another unit
/// owns it (a tied head on the stage of its embedding).
struct FlatShare {
  LayerShare share;
  std::int64_t whole = 0;
  bool borrowed = false;
};

/// Consecutive layers with what runs in them and the parameters they hold on
/// one device, before ZeRO cuts those.
struct Segment {
  Recipe forward, backward;
  LayerShare share;
  std::vector<FlatShare> flats;
};

/// What all segments of a step are cut from.
struct StepParts {
  const Setting& setting;
  const Engine& engine;
  const Strategy& strategy;
  const LayerKinds& kinds;
  const StageSizes& sizes;
};

/// Parameters of the ends that `chunk` holds on one device, and of all of it.
std::int64_t end_parameters(const StepParts& parts, const ChunkShape& chunk);
LayerShare chunk_share(const StepParts& parts, const ChunkShape& chunk);

/// Reads and writes of adding one micro-batch's gradients to an fp32 sum;
/// nothing when gradients accumulate in the width they are computed in.
Recipe accumulate_gradients(const StepParts& parts, const LayerShare& share);

/// `chunk` in at most `pieces` contiguous groups of layers, as even as can be;
/// the embedding joins the first, the head the last. Requires pieces >= 1.
std::vector<Segment> cut_chunk(const StepParts& parts, const ChunkShape& chunk,
                               int pieces);

/// The shares of those pieces, without what runs in them.
std::vector<LayerShare> piece_shares(const StepParts& parts,
                                     const ChunkShape& chunk, int pieces);

/// Flat buffers of `chunk` in the order of its units.
std::vector<FlatShare> chunk_flats(const StepParts& parts,
                                   const ChunkShape& chunk);

/// Every layer alone, and the embedding and the head too: the units that fully
/// sharded data parallelism gathers.
std::vector<Segment> cut_units(const StepParts& parts, const ChunkShape& chunk);

}  // namespace ztplan
