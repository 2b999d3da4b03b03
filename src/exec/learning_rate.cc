#include "exec/learning_rate.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace ztplan {

double rate_at(const LearningRate& schedule, std::int64_t step) {
  const auto [peak, floor, climb, steps] = schedule;
  require(climb >= 0 && steps >= climb, "a climb lies within the run");
  if (step < climb) {
    return peak * static_cast<double>(step + 1) /
           static_cast<double>(climb + 1);
  }
  if (step >= steps) return floor;
  const double way =
      static_cast<double>(step - climb) / static_cast<double>(steps - climb);
  const double height = (1 + std::cos(std::numbers::pi * way)) / 2;
  return floor + height * (peak - floor);
}

}  // namespace ztplan
