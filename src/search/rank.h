// The best strategies of a question: legality, then memory, then a lower bound
// of time from the same price list, then the simulated step for those that can
// still win. Equal to brute force, in a fixed order.
#pragma once

#include <functional>

#include "search/question.h"

namespace ztplan {

/// Called now and then with the candidates considered so far.
using Progress = std::function<void(std::int64_t considered)>;

/// Steps are told apart to a nanosecond: what is closer takes equally long.
double ranked_time(Seconds step);

Ranking rank(const Question& question, const Progress& progress);

}  // namespace ztplan
