#include "search/validation.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace ztplan {
namespace {

// Requires sorted values, at least one.
double median(const std::vector<double>& sorted) {
  const std::size_t middle = sorted.size() / 2;
  if (sorted.size() % 2 == 1) return sorted[middle];
  return (sorted[middle - 1] + sorted[middle]) / 2;
}

// Nearest rank.
double quantile(const std::vector<double>& sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<std::size_t>(rank) - 1];
}

using ErrorOf = std::optional<double> (*)(const RunResult&);
using HoldsOf = std::optional<bool> (*)(const RunResult&);

template <class T>
std::optional<bool> holds(const std::optional<T>& low,
                          const std::optional<T>& high,
                          const std::optional<T>& measured) {
  if (!low || !high || !measured) return std::nullopt;
  return *low <= *measured && *measured <= *high;
}

Coverage count_held(const std::vector<const RunResult*>& runs, HoldsOf holds) {
  Coverage coverage;
  for (const RunResult* run : runs) {
    const auto held = holds(*run);
    if (!held) continue;
    ++coverage.count;
    if (*held) ++coverage.held;
  }
  return coverage;
}

ErrorSummary summarize_runs(const std::vector<const RunResult*>& runs,
                            ErrorOf error) {
  std::vector<double> errors;
  for (const RunResult* run : runs) {
    if (const auto found = error(*run)) errors.push_back(*found);
  }
  return summarize(std::move(errors));
}

std::vector<SourceResult> by_source(const std::vector<RunResult>& runs) {
  std::map<std::string, std::vector<const RunResult*>> groups;
  for (const RunResult& run : runs) groups[run.source].push_back(&run);
  std::vector<SourceResult> sources;
  for (const auto& [source, members] : groups) {
    const auto skipped = std::ranges::count_if(
        members, [](const RunResult* run) { return !run->skipped.empty(); });
    sources.push_back({source, std::ssize(members), skipped,
                       summarize_runs(members, time_error),
                       summarize_runs(members, memory_error),
                       count_held(members, holds_time),
                       count_held(members, holds_memory)});
  }
  return sources;
}

std::vector<ReasonCount> reasons(const std::vector<RunResult>& runs) {
  std::map<std::string, std::int64_t> counts;
  for (const RunResult& run : runs) {
    if (!run.skipped.empty()) ++counts[run.skipped];
  }
  std::vector<ReasonCount> found;
  found.reserve(counts.size());
  for (const auto& [reason, count] : counts) found.push_back({reason, count});
  std::ranges::stable_sort(found, std::ranges::greater{}, &ReasonCount::count);
  return found;
}

}  // namespace

std::optional<double> time_error(const RunResult& run) {
  if (!run.predicted_step || !run.measured_step) return std::nullopt;
  return *run.predicted_step / *run.measured_step - 1;
}

std::optional<double> memory_error(const RunResult& run) {
  if (!run.predicted_peak || !run.measured_peak) return std::nullopt;
  return *run.predicted_peak / *run.measured_peak - 1;
}

std::optional<bool> holds_time(const RunResult& run) {
  return holds(run.low_step, run.high_step, run.measured_step);
}

std::optional<bool> holds_memory(const RunResult& run) {
  return holds(run.low_peak, run.high_peak, run.measured_peak);
}

double Coverage::share() const {
  return count == 0 ? 0
                    : static_cast<double>(held) / static_cast<double>(count);
}

ErrorSummary summarize(std::vector<double> errors) {
  if (errors.empty()) return {};
  constexpr double kMost = 0.9;
  ErrorSummary summary;
  summary.count = std::ssize(errors);
  std::ranges::sort(errors);
  summary.bias = median(errors);
  for (double& error : errors) error = std::abs(error);
  std::ranges::sort(errors);
  summary.median_abs_error = median(errors);
  summary.p90_abs_error = quantile(errors, kMost);
  return summary;
}

Validation validate_runs(std::vector<RunResult> runs) {
  Validation validation;
  validation.sources = by_source(runs);
  validation.skipped = reasons(runs);
  std::vector<const RunResult*> all;
  all.reserve(runs.size());
  for (const RunResult& run : runs) all.push_back(&run);
  validation.time = summarize_runs(all, time_error);
  validation.memory = summarize_runs(all, memory_error);
  validation.time_held = count_held(all, holds_time);
  validation.memory_held = count_held(all, holds_memory);
  validation.runs = std::move(runs);
  return validation;
}

}  // namespace ztplan
