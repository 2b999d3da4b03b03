// Which inputs of the model its errors go with: the median of the signed error
// of the runs that share a value of one.
#pragma once

#include <string>
#include <vector>

#include "search/validation.h"

namespace ztplan {

/// Runs that share a value of one input.
struct Bucket {
  std::string input, value;
  ErrorSummary time, memory;
};

/// Inputs in the order of their spread: that of the medians of their buckets,
/// time first, weighed by runs. Buckets by value.
std::vector<Bucket> attribute_errors(const std::vector<RunResult>& runs);

}  // namespace ztplan
