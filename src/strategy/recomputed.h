// How many layers of a chunk are recomputed.
#pragma once

#include "strategy/stages.h"
#include "strategy/strategy.h"

namespace ztplan {

/// Layers of `chunk` that are recomputed whole: none, `recompute.layers` of
/// each chunk (Megatron-LM's --recompute-method block), or all.
int recomputed_layers(const Strategy& strategy, const ChunkShape& chunk);

/// Whether whole layers are.
inline bool recomputes_layers(const Strategy& strategy) {
  return strategy.recompute.mode == Recompute::Mode::full;
}

}  // namespace ztplan
