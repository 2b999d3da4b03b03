// All there is to know of one strategy, whether it fits or not.
#pragma once

#include <optional>
#include <string_view>

#include "search/question.h"

namespace ztplan {

/// Requires a strategy that is legal for `engine`.
Plan evaluate(const Question& question, const Engine& engine,
              const Strategy& strategy);

/// `question` on the devices of `plan`, which are fewer than were asked about
/// where --objective gpus or cost says so.
Question question_of(const Question& question, const Plan& plan);

/// The tier that lacks most for its size, or empty when `memory` fits.
struct Shortage {
  Tier tier = Tier::device;
  Bytes missing;
};
std::optional<Shortage> shortage(const Question& question,
                                 const Fullness& full);
std::optional<Shortage> shortage(const Question& question,
                                 const MemoryBreakdown& memory);

/// Less of the memory free than this is called tight: what fragmentation and
/// a longer batch easily take (see docs/accuracy.md).
constexpr double kTightShare = 0.05;

enum class Fit { fits, tight, does_not_fit };
Fit fit_of(const Question& question, const Plan& plan);
/// "fits", "tight", "does not fit": fixed words.
std::string_view to_text(Fit fit);

/// The first engine of the question that `strategy` obeys; null when none.
const Engine* engine_for(const Question& question, const Strategy& strategy);

}  // namespace ztplan
