// Predicted against measured: the errors of runs, and what they come to.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"

namespace ztplan {

/// One measured run and its prediction; what was not measured is empty.
struct RunResult {
  std::string id, source;
  std::string skipped;  // why it could not be predicted; empty: it was
  std::string engine, strategy;
  std::optional<Seconds> predicted_step, measured_step;
  std::optional<Bytes> predicted_peak, measured_peak;
};

/// predicted / measured - 1; empty when either is.
std::optional<double> time_error(const RunResult& run);
std::optional<double> memory_error(const RunResult& run);

/// Of a set of relative errors. All 0 for none.
struct ErrorSummary {
  std::int64_t count = 0;
  double median_abs_error = 0;  // mean of the middle two when even
  double p90_abs_error = 0;     // the least that 90 % do not exceed
  double bias = 0;              // median of the signed errors
};
ErrorSummary summarize(std::vector<double> errors);

/// Runs of one source.
struct SourceResult {
  std::string source;
  std::int64_t runs = 0, skipped = 0;
  ErrorSummary time, memory;
};

struct ReasonCount {
  std::string reason;
  std::int64_t count = 0;
};

struct Validation {
  std::vector<RunResult> runs;        // in the order of the table
  std::vector<SourceResult> sources;  // by name
  std::vector<ReasonCount> skipped;   // most frequent first
  ErrorSummary time, memory;
};
Validation validate_runs(std::vector<RunResult> runs);

}  // namespace ztplan
