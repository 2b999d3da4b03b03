#include "report/comparison.h"

#include <fmt/format.h>

#include "base/quantity_text.h"
#include "report/number_text.h"

namespace ztplan {
namespace {

std::string time_advantage(const Plan& best, const Plan& other) {
  TimeTerm term = TimeTerm::compute;
  Seconds gain;
  for (int i = 0; i < kTimeTerms; ++i) {
    const TimeTerm candidate = static_cast<TimeTerm>(i);
    const Seconds less = other.time[candidate] - best.time[candidate];
    if (less > gain) {
      gain = less;
      term = candidate;
    }
  }
  if (gain.value <= 0) return "";
  return fmt::format("{} less {}", text(gain), to_text(term));
}

std::string memory_advantage(const Plan& best, const Plan& other) {
  Term term = Term::parameters;
  Bytes gain;
  for (int i = 0; i < kTerms; ++i) {
    const Term candidate = static_cast<Term>(i);
    const Bytes less = other.memory[candidate] - best.memory[candidate];
    if (less > gain) {
      gain = less;
      term = candidate;
    }
  }
  if (gain.value <= 0) return "";
  return fmt::format("{} less {}", text(gain), to_text(term));
}

double value_of(const Plan& plan, Objective objective) {
  if (objective == Objective::memory) {
    return static_cast<double>(plan.memory.peak().value);
  }
  if (objective == Objective::gpus) return plan.gpus;
  if (objective == Objective::cost) return plan.time.total().value * plan.gpus;
  return plan.time.total().value;
}

std::string tie(const Plan& best, const Plan& other,
                const std::string& reason) {
  const Bytes less = other.memory.peak() - best.memory.peak();
  if (less.value > 0) {
    return fmt::format("#1 and #2 tie; #1 holds {} less", text(less));
  }
  if (!reason.empty()) return fmt::format("#1 and #2 tie; #1 has {}", reason);
  return best.strategy.zero < other.strategy.zero
             ? "#1 and #2 tie; #1 has the lower ZeRO stage"
             : "#1 and #2 are equal";
}

}  // namespace

std::string advantage(const Plan& best, const Plan& other,
                      Objective objective) {
  if (objective == Objective::memory) return memory_advantage(best, other);
  return time_advantage(best, other);
}

std::string comparison(const Plan& best, const Plan& other,
                       Objective objective) {
  const double first = value_of(best, objective);
  const double share = (value_of(other, objective) - first) / first;
  const bool by_cost = objective == Objective::cost && best.gpus != other.gpus;
  const std::string reason =
      by_cost ? fmt::format("{:.1f} GPU-seconds a step against {:.1f}", first,
                            value_of(other, objective))
              : advantage(best, other, objective);
  if (share <= 0) return tie(best, other, reason);
  const std::string lead = fmt::format("#1 beats #2 by {}", share_text(share));
  return reason.empty() ? lead : fmt::format("{}: {}", lead, reason);
}

}  // namespace ztplan
