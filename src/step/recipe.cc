#include "step/recipe.h"

#include <algorithm>
#include <iterator>

namespace ztplan {

std::string_view to_text(TimeTerm term) {
  switch (term) {
    case TimeTerm::compute:
      return "compute";
    case TimeTerm::tensor_comm:
      return "tensor_comm";
    case TimeTerm::context_comm:
      return "context_comm";
    case TimeTerm::expert_comm:
      return "expert_comm";
    case TimeTerm::data_comm:
      return "data_comm";
    case TimeTerm::pipeline_comm:
      return "pipeline_comm";
    case TimeTerm::offload:
      return "offload";
    case TimeTerm::optimizer:
      return "optimizer";
    case TimeTerm::bubble:
      return "bubble";
  }
  return "";
}

void append(Recipe& recipe, const Recipe& part, std::int64_t count) {
  if (count == 0) return;
  for (Item item : part.items) {
    item.count *= count;
    recipe.items.push_back(item);
  }
  recipe.kernels += part.kernels * count;
}

SplitBackward split_backward(const Recipe& backward) {
  SplitBackward split;
  split.inputs.name = backward.name + ", inputs";
  split.weights.name = backward.name + ", weights";
  std::vector<std::ptrdiff_t> place;  // of each item in its part
  for (const Item& item : backward.items) {
    Recipe& part = item.weights ? split.weights : split.inputs;
    Item moved = item;
    if (item.beside > 0) {
      const std::size_t partner =
          place.size() - static_cast<std::size_t>(item.beside);
      const bool together = backward.items[partner].weights == item.weights;
      moved.beside =
          together ? static_cast<int>(std::ssize(part.items) - place[partner])
                   : 0;
    }
    place.push_back(std::ssize(part.items));
    part.items.push_back(moved);
    if (item.weights && !std::holds_alternative<Collective>(item.work))
      split.weights.kernels += item.count;
  }
  split.weights.kernels = std::min(split.weights.kernels, backward.kernels);
  split.inputs.kernels = backward.kernels - split.weights.kernels;
  return split;
}

}  // namespace ztplan
