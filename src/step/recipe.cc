#include "step/recipe.h"

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

}  // namespace ztplan
