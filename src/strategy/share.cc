#include "strategy/share.h"

#include <algorithm>

#include "base/units.h"

namespace ztplan {
namespace {

std::int64_t width(const ModelSpec& model) {
  return model.embedding_size > 0 ? model.embedding_size : model.hidden;
}

std::int64_t rows(const Strategy& strategy, std::int64_t vocab) {
  return divide_up(vocab, strategy.tensor);
}

}  // namespace

std::int64_t embedding_share(const ModelSpec& model, const Strategy& strategy,
                             std::int64_t vocab) {
  return rows(strategy, vocab) * width(model) +
         embedding_extra_parameters(model);
}

std::int64_t head_share(const ModelSpec& model, const Strategy& strategy,
                        std::int64_t vocab, bool beside_embedding) {
  const std::int64_t norm = final_norm_parameters(model);
  if (model.tied && beside_embedding) return norm;
  return norm + rows(strategy, vocab) * width(model);
}

bool holds_embedding(const Strategy& strategy) {
  return strategy.pipeline == 1;
}

int recomputed_layers(const Strategy& strategy, const ChunkShape& chunk) {
  if (strategy.recompute.mode != Recompute::Mode::full) return 0;
  if (strategy.recompute.layers == 0) return chunk.layers();
  return std::min(strategy.recompute.layers, chunk.layers());
}

}  // namespace ztplan
