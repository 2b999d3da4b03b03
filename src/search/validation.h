// Predicted against measured: the errors of runs, and what they come to.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "search/evaluate.h"

namespace ztplan {

/// An input of the model, as far as runs share it: "tensor" of "8".
struct RunInput {
  std::string name, value;
  double order = 0;  // values are told in this order, equals by name
};

/// One measured run and its prediction; what was not measured is empty.
struct RunResult {
  std::string id, source;
  std::string skipped;  // why it could not be predicted; empty: it was
  std::string engine, strategy;
  std::optional<Seconds> predicted_step, measured_step;
  std::optional<Bytes> predicted_peak, measured_peak;
  std::optional<Seconds> low_step, high_step;  // of the prediction's interval
  std::optional<Bytes> low_peak, high_peak;
  std::string framework, cluster;  // that ran it
  std::string question;            // that rows of other layouts answer too
  bool ran_out = false;            // of memory
  std::optional<Fit> fit;          // predicted
  std::vector<RunInput> inputs;
};

/// predicted / measured - 1; empty when either is.
std::optional<double> time_error(const RunResult& run);
std::optional<double> memory_error(const RunResult& run);

/// Whether the interval holds what was measured; empty where either is.
std::optional<bool> holds_time(const RunResult& run);
std::optional<bool> holds_memory(const RunResult& run);

/// How many measured values the intervals hold, which should be four of five.
struct Coverage {
  std::int64_t count = 0, held = 0;
  double share() const;  // 0 of none
};

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
  Coverage time_held, memory_held;
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
  Coverage time_held, memory_held;
};
Validation validate_runs(std::vector<RunResult> runs);

}  // namespace ztplan
