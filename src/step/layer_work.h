// The works of one layer and of the model's ends under a strategy, for one
// micro-batch on one device.
#pragma once

#include "spec/model.h"
#include "step/recipe.h"
#include "strategy/engine.h"
#include "strategy/strategy.h"

namespace ztplan {

Recipe layer_forward(const Setting& setting, const Layer& layer,
                     const Strategy& strategy);
/// With what the strategy recomputes, had the layer been kept whole.
Recipe layer_backward(const Setting& setting, const Layer& layer,
                      const Strategy& strategy);

Recipe embedding_forward(const Setting& setting, const Strategy& strategy);
Recipe embedding_backward(const Setting& setting, const Strategy& strategy);

/// Final norm, head product and loss over `vocab` padded rows.
Recipe head_forward(const Setting& setting, const Strategy& strategy,
                    std::int64_t vocab);
Recipe head_backward(const Setting& setting, const Strategy& strategy,
                     std::int64_t vocab);

/// Operations a token costs in forward and backward, as the model defines them
/// (no recomputation, vocabulary unpadded, attention counted in full or with
/// its masked half left out): the numerator of MFU. Beside adapters no gradient
/// of the frozen weights.
enum class AttentionCount { full, causal };
Flops model_flops(const ModelSpec& model, int sequence, AttentionCount count,
                  const Adapters& adapters = {});

}  // namespace ztplan
