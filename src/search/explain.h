// Why a given strategy is not first: illegal, too big, or slower and where.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search/evaluate.h"
#include "search/question.h"

namespace ztplan {

enum class Verdict { best, slower, does_not_fit, illegal };

/// A term of time or memory in which two plans differ.
template <class Value>
struct Difference {
  std::string term;
  Value ours, theirs;
};
using TimeDifferences = std::vector<Difference<Seconds>>;
using MemoryDifferences = std::vector<Difference<Bytes>>;

struct Explanation {
  Verdict verdict = Verdict::best;
  std::vector<Misfit> misfits;   // rules broken, by engine, when illegal
  std::optional<Plan> plan;      // when legal
  std::optional<Shortage> lack;  // when it does not fit
  std::optional<Plan> best;      // the first of the ranking, if any fits
  TimeDifferences time;          // against `best`, largest first
  MemoryDifferences memory;      // likewise
};

Explanation explain(const Question& question, const Strategy& strategy);

/// The same where the best plan is known: empty when nothing fits.
Explanation explain(const Question& question, const Strategy& strategy,
                    const std::optional<Plan>& best);

/// The rules that the first strategy of the question's limits breaks, by
/// engine; of the limits' first values where no product of them makes the
/// cluster's devices. For when no strategy is legal.
std::vector<Misfit> why_none(const Question& question);

/// Terms of `ours` that differ from those of `theirs`, largest first.
TimeDifferences time_differences(const Plan& ours, const Plan& theirs);
MemoryDifferences memory_differences(const Plan& ours, const Plan& theirs);

}  // namespace ztplan
