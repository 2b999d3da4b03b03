// Whether predictions put measured runs in the right order: layouts of one
// model on one cluster, and what fits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search/validation.h"

namespace ztplan {

/// Of the questions that a source's runs answer with several layouts. A layout
/// that ran more than once counts once, by the middle of its times.
struct RankingResult {
  std::string source;
  std::int64_t questions = 0, runs = 0;
  double tau = 0;  // Kendall's, mean over questions
  // Measured time of the layout predicted best over the best measured, less 1.
  double mean_regret = 0, worst_regret = 0;
};

/// Of rows that ran out of memory, how many are predicted not to fit, or to be
/// tight; and of rows that ran, how many are predicted not to fit.
struct FitResult {
  std::int64_t ran_out = 0, called = 0, tight = 0;
  std::int64_t ran = 0, refused = 0;
};

/// By source, those with a question to rank alone.
std::vector<RankingResult> rank_runs(const std::vector<RunResult>& runs);
/// Mean over all questions of all sources.
RankingResult rank_all(const std::vector<RunResult>& runs);
FitResult count_fits(const std::vector<RunResult>& runs);

/// Kendall's tau of two orders of the same things, from -1 to 1: pairs in the
/// same order less pairs in the other, over all pairs that are no tie of
/// either; 0 when all are. Requires as many of each.
double kendall_tau(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace ztplan
