// Why a given strategy is not first: illegal, too big, or slower and where.
#pragma once

#include <string>
#include <vector>

#include "search/question.h"

namespace ztplan {

enum class Verdict { best, slower, does_not_fit, illegal };

struct Explanation {
  Verdict verdict = Verdict::best;
  std::vector<Misfit> misfits;       // every rule broken, when illegal
  std::optional<Plan> plan;          // when legal
  std::optional<NearMiss> miss;      // when it does not fit
  std::optional<Plan> best;          // the first of the ranking
  int rank = 0;                      // its place, when within the ranking
  std::vector<std::string> reasons;  // sentences with numbers, largest first
};

Explanation explain(const Question& question, const Strategy& strategy);

}  // namespace ztplan
