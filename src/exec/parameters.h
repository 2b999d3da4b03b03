// Which parameters a rank holds, and where each lies in its flat buffers.
//
// A unit is what is gathered, reduced and stepped together: a layer, or one end
// of the model. It has one flat buffer of dense parameters and, with experts,
// one of those. In a dense one come first the parameters that every tensor rank
// holds whole, so that gradients of theirs are one range.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "spec/model.h"
#include "strategy/strategy.h"

namespace ztplan {

enum class Initial { normal, residual, zero, one };

/// A matrix [rows, columns] of the model (a vector has one row), and the part
/// of it that lies here.
struct Parameter {
  std::string name;  // "layers.3.attention.q.weight"
  std::int64_t rows = 1, columns = 0;
  std::int64_t first_row = 0, local_rows = 1;
  std::int64_t first_column = 0, local_columns = 0;
  std::int64_t offset = 0;  // elements, in its flat buffer
  Initial initial = Initial::zero;
  std::int64_t size() const { return local_rows * local_columns; }
};

/// Whether its rows are words, which padding follows; and its rows without.
bool is_table(const Parameter& parameter);
std::int64_t unpadded_rows(const ModelSpec& model, const Parameter& parameter);

struct Flat {
  std::vector<Parameter> parameters;
  std::int64_t size = 0;   // elements
  std::int64_t whole = 0;  // the first of them, equal on all tensor ranks
  bool experts = false;
};

/// Where a rank stands among those that cut a layer.
struct Position {
  int tensor = 0;  // of strategy.tensor
  int expert = 0;  // of strategy.expert
};

/// Matrices and vectors of a layer as kernels use them.
enum class LayerPart {
  norm1_weight,
  norm1_bias,
  norm2_weight,
  norm2_bias,
  attended_bias,
  down_bias,
  router,          // [experts, hidden]
  projected,       // [query + 2 key, hidden]
  projected_bias,  // [query + 2 key]
  attended,        // [hidden, query]
  up,              // [up, hidden]: gate, then up
  up_bias,
  down,  // [hidden, width]
  count
};

/// Offset and shape in a flat buffer; no rows: absent.
struct Spot {
  std::int64_t offset = 0, rows = 0, columns = 0;
};

struct LayerFlats {
  Flat dense, experts;
  std::array<Spot, static_cast<std::size_t>(LayerPart::count)> parts{};
  std::int64_t expert_size = 0;  // elements of one expert
  Spot expert_up, expert_down;   // of the first expert
  const Spot& at(LayerPart part) const {
    return parts[static_cast<std::size_t>(part)];
  }
};
LayerFlats layer_flats(const ModelSpec& model, const Layer& layer, int number,
                       const Strategy& strategy, const Position& position);

/// Embedding or output matrix [vocab / tensor, hidden].
Flat table_flat(const ModelSpec& model, const char* name,
                const Strategy& strategy, std::int64_t padded_vocab,
                const Position& position);
/// Learned positions, empty without; and the final norm: weight, then bias.
Flat positions_flat(const ModelSpec& model);
Flat final_norm_flat(const ModelSpec& model);

}  // namespace ztplan
