// The parameter tensors of one device's share of a layer and of the ends of a
// model, by size: what engines that treat them one by one decide on. Sums are
// layer_memory.h's `LayerShare` and `EndShare`, up to what cuts round up.
#pragma once

#include <vector>

#include "spec/model.h"
#include "strategy/strategy.h"

namespace ztplan {

/// `count` tensors of `elements` each.
struct ParameterTensors {
  std::int64_t count = 0;
  std::int64_t elements = 0;
};
using TensorList = std::vector<ParameterTensors>;

/// Matrices as modules of transformers hold them, queries, keys and values
/// apart, each expert's its own; adapters too.
TensorList layer_tensors(const ModelSpec& model, const Layer& layer,
                         const Workload& workload, const Strategy& strategy);

/// Token and position tables, embedding norm, projections, relative biases.
/// Requires padded_vocab >= model.vocab.
TensorList embedding_tensors(const ModelSpec& model, const Strategy& strategy,
                             std::int64_t padded_vocab);
/// Final norm and the bias of the head; its matrix is one tensor more.
TensorList norm_tensors(const ModelSpec& model, const Strategy& strategy,
                        std::int64_t padded_vocab);

/// Elements of those tensors that have at most `threshold`.
std::int64_t small_elements(const TensorList& tensors, std::int64_t threshold);

}  // namespace ztplan
