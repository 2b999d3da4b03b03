// The rules that hold for any engine, in the order they are asked: the cheap
// and those that others lean on first.
#include "strategy/engines/rules.h"

namespace ztplan {

std::span<const Rule> common_rules() {
  static const RuleList list = {grid_rules(),     state_rules(),
                                sequence_rules(), expert_rules(),
                                pipeline_rules(), number_rules()};
  return list.all();
}

}  // namespace ztplan
