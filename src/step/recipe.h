// A recipe: the ordered works of one task. All micro-batches share it, so it
// is stored and priced once.
#pragma once

#include <string>
#include <vector>

#include "step/work.h"

namespace ztplan {

/// Where time goes. One name in code, JSON, table and documents.
enum class TimeTerm {
  compute,
  tensor_comm,
  context_comm,
  expert_comm,
  data_comm,
  pipeline_comm,
  offload,
  optimizer,
  bubble
};
constexpr int kTimeTerms = 9;
std::string_view to_text(TimeTerm term);

/// `count` equal works, one after the other.
struct Item {
  TimeTerm term = TimeTerm::compute;
  std::int64_t count = 1;
  Work work;
  /// Items back to the work that this one runs beside (the asynchronous
  /// collective of a linear layer beside its product); 0: beside none. Only
  /// what outlasts that work is waited for.
  int beside = 0;
  bool again = false;    // recomputation: not a flop of the model
  bool weights = false;  // of weight gradients, which no other stage waits for
  auto operator<=>(const Item&) const = default;
};

struct Recipe {
  std::string name;  // "forward of 6 layers"
  std::vector<Item> items;
  std::int64_t kernels = 0;     // launches that the host must keep up with
  bool beside_gathers = false;  // shares the device with ZeRO 3's collectives
};

/// Appends `count` times the works of `part`.
void append(Recipe& recipe, const Recipe& part, std::int64_t count);

/// A backward in two tasks: what carries gradients back through the layers, and
/// what makes those of the weights, later. Together they are all of its works;
/// a work beside one of the other part runs beside none, and each work of the
/// weights but a collective is one launch. Source: Qi et al., arXiv 2401.10241,
/// section 2.
struct SplitBackward {
  Recipe inputs, weights;
};
SplitBackward split_backward(const Recipe& backward);

}  // namespace ztplan
