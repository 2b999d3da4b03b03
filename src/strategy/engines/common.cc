// The rules that hold for any engine, in the order they are asked: the cheap
// and those that others lean on first.
#include <array>

#include "strategy/engines/rules.h"

namespace ztplan {
namespace {

constexpr std::size_t kMostRules = 48;

struct RuleList {
  std::array<Rule, kMostRules> rules{};
  std::size_t size = 0;
  void append(std::span<const Rule> more) {
    for (const Rule& rule : more) rules.at(size++) = rule;
  }
};

RuleList gather() {
  RuleList list;
  list.append(grid_rules());
  list.append(state_rules());
  list.append(sequence_rules());
  list.append(expert_rules());
  list.append(pipeline_rules());
  list.append(number_rules());
  return list;
}

}  // namespace

std::span<const Rule> common_rules() {
  static const RuleList list = gather();
  return {list.rules.data(), list.size};
}

}  // namespace ztplan
