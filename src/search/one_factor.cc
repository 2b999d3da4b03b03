#include "search/one_factor.h"

#include <map>
#include <tuple>
#include <utility>

namespace ztplan {
namespace {

using Pair = std::tuple<std::string, std::string, std::string>;
using Errors = std::vector<double>;

std::map<Pair, Errors> errors_by_pair(const std::vector<RunResult>& runs) {
  std::map<Pair, Errors> pairs;
  for (const RunResult& run : runs)
    if (const auto error = time_error(run))
      pairs[{run.source, run.framework, run.cluster}].push_back(*error);
  return pairs;
}

/// Every other one.
Errors half(const Errors& errors, std::size_t first) {
  Errors found;
  for (std::size_t i = first; i < errors.size(); i += 2)
    found.push_back(errors[i]);
  return found;
}

Errors corrected(Errors errors, double factor) {
  for (double& error : errors) error = (1 + error) * factor - 1;
  return errors;
}

}  // namespace

OneFactor fit_one_factor(const std::vector<RunResult>& runs) {
  OneFactor result;
  Errors before, after;
  for (const auto& [pair, errors] : errors_by_pair(runs)) {
    const Errors fitted = half(errors, 0), judged = half(errors, 1);
    const double factor = 1 / (1 + summarize(fitted).bias);
    const Errors better = corrected(judged, factor);
    before.insert(before.end(), judged.begin(), judged.end());
    after.insert(after.end(), better.begin(), better.end());
    const auto& [source, framework, cluster] = pair;
    result.factors.push_back({source, framework, cluster, std::ssize(fitted),
                              factor, summarize(judged), summarize(better)});
  }
  result.before = summarize(std::move(before));
  result.after = summarize(std::move(after));
  return result;
}

}  // namespace ztplan
