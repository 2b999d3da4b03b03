// Curves through samples: times as a sum of their sizes, none of them negative.
// Eigen's door, beside products.
#pragma once

#include <vector>

#include "spec/measured.h"

namespace ztplan {

/// Non-negative least squares of relative errors over all subsets of sizes,
/// twice: the second time what the first is far from weighs less (Huber). The
/// samples are sorted. Requires samples of equal sizes, few of them.
ProbeCurve fit_curve(std::vector<Sample> samples);

}  // namespace ztplan
