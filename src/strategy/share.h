// What one device holds of a model's ends, and how many layers of a chunk it
// recomputes. Shares of whole layers are layer_memory's.
#pragma once

#include <cstdint>

#include "spec/model.h"
#include "strategy/stages.h"
#include "strategy/strategy.h"

namespace ztplan {

/// Parameters of the embedding on one device: rows cut by tensor, the position
/// table, embedding norm and projections whole.
std::int64_t embedding_share(const ModelSpec& model, const Strategy& strategy,
                             std::int64_t vocab);

/// Parameters of final norm and head on one device. A tied head is a copy of
/// the embedding, held once where both are on one stage (`beside_embedding`).
std::int64_t head_share(const ModelSpec& model, const Strategy& strategy,
                        std::int64_t vocab, bool beside_embedding);

/// Whether the stage that holds the head holds the embedding too.
bool holds_embedding(const Strategy& strategy);

/// Layers of `chunk` that are recomputed whole: none, `recompute.layers` of
/// each chunk (Megatron-LM's --recompute-method block), or all.
int recomputed_layers(const Strategy& strategy, const ChunkShape& chunk);

}  // namespace ztplan
