// One multiplier for each framework on each cluster: what a user who times a
// few of his own steps can correct, tried on runs that had no part in it.
#pragma once

#include <string>
#include <vector>

#include "search/validation.h"

namespace ztplan {

/// The runs of one framework on one cluster, every other one in the order of
/// the table to fit on, the others to judge by.
struct Factor {
  std::string source, framework, cluster;
  std::int64_t fitted = 0;
  double factor = 1;           // median of measured / predicted of the fitted
  ErrorSummary before, after;  // of the judged
};

struct OneFactor {
  std::vector<Factor> factors;  // by source, framework and cluster
  ErrorSummary before, after;   // of all that were judged
};

/// Of the runs whose times can be compared. A cluster is the GPUs of one kind
/// that a source has; of a single run nothing is judged.
OneFactor fit_one_factor(const std::vector<RunResult>& runs);

}  // namespace ztplan
