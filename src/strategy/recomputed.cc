#include "strategy/recomputed.h"

#include <algorithm>

namespace ztplan {

bool names_parts(const Recompute& recompute) {
  return std::ranges::any_of(kRecomputedParts, [&](const RecomputedPart& part) {
    return recompute.*part.flag;
  });
}

bool names_modules(const Recompute& recompute) {
  return std::ranges::any_of(kRecomputedParts, [&](const RecomputedPart& part) {
    return part.is_module && recompute.*part.flag;
  });
}

int recomputed_layers(const Strategy& strategy, const ChunkShape& chunk) {
  if (strategy.recompute.mode != Recompute::Mode::full) return 0;
  if (strategy.recompute.layers == 0) return chunk.layers();
  return std::min(strategy.recompute.layers, chunk.layers());
}

}  // namespace ztplan
