#include "calibrate/refine.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace ztplan {
namespace {

/// The value below which `share` of them lie.
double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::ceil(share * last))];
}

double ratio(const ExecutedRun& run) { return run.measured / run.predicted; }

std::vector<double> ratios_of(std::span<const ExecutedRun> runs, int ranks) {
  std::vector<double> ratios;
  for (const ExecutedRun& run : runs)
    if (run.ranks == ranks) ratios.push_back(ratio(run));
  return ratios;
}

}  // namespace

MeasuredMachine refine(MeasuredMachine machine,
                       std::span<const ExecutedRun> runs) {
  constexpr double kMedian = 0.5, kFourOfFive = 0.8;
  require(!runs.empty(), "something ran");
  const int most = std::ranges::max(runs, {}, &ExecutedRun::ranks).ranks;
  std::vector<double> factors, moved;
  for (int ranks = 1; ranks <= most; ++ranks) {
    const std::vector<double> ratios = ratios_of(runs, ranks);
    moved.push_back(!ratios.empty() ? quantile(ratios, kMedian)
                    : moved.empty() ? 1
                                    : moved.back());
    factors.push_back(step_factor(machine, ranks) * moved.back());
  }
  std::vector<double> off;
  for (const ExecutedRun& run : runs)
    off.push_back(std::abs(
        std::log(ratio(run) / moved[static_cast<std::size_t>(run.ranks) - 1])));
  machine.step_factors = std::move(factors);
  machine.runs = static_cast<int>(runs.size());
  machine.run_spread = std::expm1(quantile(std::move(off), kFourOfFive));
  return machine;
}

}  // namespace ztplan
