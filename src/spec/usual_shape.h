// The shape a GPT or Llama of a given size usually has.
#pragma once

#include "spec/model.h"

namespace ztplan {

enum class TextFamily { gpt, llama };

/// A model of plain, equal layers in few numbers. 0: as the family has it.
struct Shape {
  int layers = 0, hidden = 0, heads = 0, vocab = 0, sequence = 0;
  int kv_heads = 0, head_size = 0, ffn = 0, experts = 0, top_k = 0;
};

/// Fills what `shape` leaves open. Throws `Error` when hidden has no usual
/// number of heads. Requires hidden >= 1.
Shape complete(TextFamily family, Shape shape);

/// The spec of a complete shape, unchecked, without name and source.
ModelSpec make_model(TextFamily family, const Shape& shape);

/// Layers, hidden and heads for about `count` parameters: a published shape
/// within 6 %, or the nearest in size and proportion to its neighbours. Keeps
/// vocab and sequence of `given`. Throws `Error` when none is within 10 %.
Shape usual_shape(TextFamily family, double count, const Shape& given);

}  // namespace ztplan
