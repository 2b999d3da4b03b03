// Bytes one layer keeps and needs on one device, for one micro-batch.
// Source of every term: Korthikanti et al., arXiv 2205.05198, table 2, and the
// same accounting for fused kernels, gated MLPs, GQA, MLA and experts.
#pragma once

#include "base/units.h"
#include "spec/model.h"
#include "strategy/strategy.h"

namespace ztplan {

/// Of one layer, one micro-batch, one device.
struct LayerActivations {
  Bytes saved;             // from forward to backward, less what is recomputed
  Bytes checkpoint;        // kept when the whole layer is recomputed: its input
  Bytes working;           // above `saved` while its backward runs
  Bytes attention_scores;  // one fp32 score tensor when eager, else 0
};

LayerActivations layer_activations(const ModelSpec& model, const Layer& layer,
                                   const Workload& workload,
                                   const Strategy& strategy);

/// Of the ends of the model, one micro-batch, one device.
struct EndActivations {
  Bytes embedding;  // saved by the embedding (ids, dropout mask)
  Bytes head;       // saved before the loss: final norm in and out
  Bytes logits;     // logits, their loss copies and gradients at the peak
};

EndActivations end_activations(const ModelSpec& model, const Workload& workload,
                               const Strategy& strategy,
                               std::int64_t padded_vocab);

/// Parameters of one device's share of a layer: cut by tensor, key/value by
/// min(tensor, kv_heads), experts by expert; norms and router whole.
struct LayerShare {
  std::int64_t dense = 0;    // reduced over data * context
  std::int64_t experts = 0;  // reduced over expert_data
};
LayerShare layer_share(const ModelSpec& model, const Layer& layer,
                       const Strategy& strategy);

}  // namespace ztplan
