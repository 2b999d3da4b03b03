#include "strategy/recomputed.h"

#include <algorithm>

namespace ztplan {
int recomputed_layers(const Strategy& strategy, const ChunkShape& chunk) {
  if (strategy.recompute.mode != Recompute::Mode::full) return 0;
  if (strategy.recompute.layers == 0) return chunk.layers();
  return std::min(strategy.recompute.layers, chunk.layers());
}

}  // namespace ztplan
