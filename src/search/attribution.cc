#include "search/attribution.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

namespace ztplan {
namespace {

struct Errors {
  std::vector<double> time, memory;
};
using Values = std::map<std::pair<double, std::string>, Errors>;

std::map<std::string, Values> errors_by_input(
    const std::vector<RunResult>& runs) {
  std::map<std::string, Values> inputs;
  for (const RunResult& run : runs) {
    const auto time = time_error(run), memory = memory_error(run);
    if (!time && !memory) continue;
    for (const RunInput& input : run.inputs) {
      Errors& errors = inputs[input.name][{input.order, input.value}];
      if (time) errors.time.push_back(*time);
      if (memory) errors.memory.push_back(*memory);
    }
  }
  return inputs;
}

/// How much of the error goes with the input: mean distance of its buckets'
/// medians from that of all its runs.
double spread(const std::vector<Bucket>& buckets) {
  double runs = 0, mean = 0, sum = 0;
  for (const Bucket& bucket : buckets) {
    const auto count = static_cast<double>(bucket.time.count);
    runs += count;
    mean += count * bucket.time.bias;
  }
  if (runs == 0) return 0;
  mean /= runs;
  for (const Bucket& bucket : buckets)
    sum += static_cast<double>(bucket.time.count) *
           std::abs(bucket.time.bias - mean);
  return sum / runs;
}

}  // namespace

std::vector<Bucket> attribute_errors(const std::vector<RunResult>& runs) {
  std::vector<std::vector<Bucket>> inputs;
  for (auto& [name, values] : errors_by_input(runs)) {
    std::vector<Bucket> buckets;
    for (auto& [value, errors] : values)
      buckets.push_back({name, value.second, summarize(std::move(errors.time)),
                         summarize(std::move(errors.memory))});
    inputs.push_back(std::move(buckets));
  }
  std::ranges::stable_sort(inputs, std::ranges::greater{}, spread);
  std::vector<Bucket> all;
  for (std::vector<Bucket>& buckets : inputs)
    std::ranges::move(buckets, std::back_inserter(all));
  return all;
}

}  // namespace ztplan
