#include "calibrate/fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace ztplan {
namespace {

using Rows = Eigen::MatrixXd;
using Numbers = Eigen::VectorXd;

/// Row i: the sizes of sample i over its time, times its weight.
Rows relative_sizes(const std::vector<Sample>& samples,
                    const Numbers& weights) {
  const auto count = static_cast<Eigen::Index>(samples.size());
  const auto sizes = static_cast<Eigen::Index>(samples.front().sizes.size());
  Rows rows(count, sizes);
  for (Eigen::Index i = 0; i < count; ++i) {
    const Sample& sample = samples[static_cast<std::size_t>(i)];
    for (Eigen::Index j = 0; j < sizes; ++j)
      rows(i, j) = weights(i) * sample.sizes[static_cast<std::size_t>(j)] /
                   sample.median.value;
  }
  return rows;
}

/// The best coefficients of the sizes in `subset`, 0 elsewhere; worse than any
/// where one of them would be negative.
struct Solution {
  Numbers coefficients;
  double error = std::numeric_limits<double>::infinity();
};
Solution solve(const Rows& rows, const Numbers& weights, unsigned subset) {
  std::vector<Eigen::Index> chosen;
  for (Eigen::Index j = 0; j < rows.cols(); ++j)
    if ((subset >> static_cast<unsigned>(j)) & 1U) chosen.push_back(j);
  // Columns differ by many orders of magnitude: each is scaled to 1.
  Rows part(rows.rows(), static_cast<Eigen::Index>(chosen.size()));
  Numbers scale(part.cols());
  for (Eigen::Index j = 0; j < part.cols(); ++j) {
    const auto column = rows.col(chosen[static_cast<std::size_t>(j)]);
    scale(j) = std::max(column.norm(), std::numeric_limits<double>::min());
    part.col(j) = column / scale(j);
  }
  const Numbers found = part.colPivHouseholderQr().solve(weights);
  Solution solution;
  solution.coefficients = Numbers::Zero(rows.cols());
  if ((found.array() < 0).any() || !found.allFinite()) return solution;
  for (Eigen::Index j = 0; j < part.cols(); ++j)
    solution.coefficients(chosen[static_cast<std::size_t>(j)]) =
        found(j) / scale(j);
  solution.error = (part * found - weights).squaredNorm();
  return solution;
}

Solution best_of_subsets(const Rows& rows, const Numbers& weights) {
  Solution best;
  const unsigned subsets = 1U << static_cast<unsigned>(rows.cols());
  for (unsigned subset = 1; subset < subsets; ++subset) {
    const Solution one = solve(rows, weights, subset);
    if (one.error < best.error) best = one;
  }
  return best;
}

/// Of what lies further off than most.
Numbers huber_weights(const std::vector<Sample>& samples,
                      const Numbers& coefficients) {
  constexpr double kFar = 0.2;  // a relative error that counts in full
  const Numbers ones = Numbers::Ones(static_cast<Eigen::Index>(samples.size()));
  const Numbers off =
      (relative_sizes(samples, ones) * coefficients - ones).cwiseAbs();
  return off.unaryExpr([](double error) {
    return error <= kFar ? 1.0 : std::sqrt(kFar / error);
  });
}

/// The curve without one of its samples.
ProbeCurve without(const ProbeCurve& curve, std::size_t left_out) {
  ProbeCurve rest = curve;
  rest.samples.erase(rest.samples.begin() +
                     static_cast<std::ptrdiff_t>(left_out));
  return rest;
}

/// Of four of five samples the others tell the time within 1 + spread; no less
/// than what a sample's own repeats differ by.
double spread_of(const ProbeCurve& curve) {
  constexpr double kShare = 0.8;
  std::vector<double> off;
  for (std::size_t i = 0; i < curve.samples.size(); ++i) {
    const Sample& sample = curve.samples[i];
    const Seconds told = curve.samples.size() > 1
                             ? seconds_of(without(curve, i), sample.sizes)
                             : sample.median;
    off.push_back(std::max(std::abs(std::log(sample.median / told)),
                           0.5 * std::log(sample.high / sample.low)));
  }
  std::ranges::sort(off);
  const auto last = static_cast<double>(off.size() - 1);
  return std::expm1(off[static_cast<std::size_t>(std::ceil(kShare * last))]);
}

}  // namespace

ProbeCurve fit_curve(std::vector<Sample> samples) {
  require(!samples.empty(), "a curve goes through samples");
  std::ranges::sort(samples, {}, &Sample::sizes);
  const auto count = static_cast<Eigen::Index>(samples.size());
  Numbers weights = Numbers::Ones(count);
  Solution best = best_of_subsets(relative_sizes(samples, weights), weights);
  require(std::isfinite(best.error), "some coefficient is positive");
  weights = huber_weights(samples, best.coefficients);
  best = best_of_subsets(relative_sizes(samples, weights), weights);
  ProbeCurve curve;
  curve.coefficients.assign(best.coefficients.begin(), best.coefficients.end());
  curve.samples = std::move(samples);
  curve.spread = spread_of(curve);
  return curve;
}

}  // namespace ztplan
