// All there is to know of one strategy, whether it fits or not.
#pragma once

#include <optional>

#include "search/question.h"

namespace ztplan {

/// Requires a strategy that is legal for `engine`.
Plan evaluate(const Question& question, const Engine& engine,
              const Strategy& strategy);

/// The tier that lacks most for its size, or empty when `memory` fits.
struct Shortage {
  Tier tier = Tier::device;
  Bytes missing;
};
std::optional<Shortage> shortage(const Question& question,
                                 const Fullness& full);
std::optional<Shortage> shortage(const Question& question,
                                 const MemoryBreakdown& memory);

/// The first engine of the question that `strategy` obeys; null when none.
const Engine* engine_for(const Question& question, const Strategy& strategy);

}  // namespace ztplan
