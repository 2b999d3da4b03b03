#include "search/run_ranking.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ztplan {
namespace {

using Runs = std::vector<const RunResult*>;
using Key = std::pair<std::string, std::string>;  // source, question
using Layouts = std::map<std::string, Runs>;      // by strategy

/// Runs whose times can be compared, where their layouts differ.
std::map<Key, Layouts> questions_of(const std::vector<RunResult>& runs) {
  std::map<Key, Layouts> questions;
  for (const RunResult& run : runs)
    if (time_error(run) && !run.question.empty())
      questions[{run.source, run.question}][run.strategy].push_back(&run);
  std::erase_if(questions,
                [](const auto& entry) { return entry.second.size() < 2; });
  return questions;
}

/// The middle of the times of a layout's runs, the later of two.
double middle(const Runs& runs, std::optional<Seconds> RunResult::*of) {
  std::vector<double> times;
  times.reserve(runs.size());
  for (const RunResult* run : runs) times.push_back((run->*of)->value);
  const auto at = times.begin() + std::ssize(times) / 2;
  std::ranges::nth_element(times, at);
  return *at;
}

void add_question(RankingResult& result, const Layouts& layouts) {
  std::vector<double> predicted, measured;
  for (const auto& [strategy, runs] : layouts) {
    predicted.push_back(middle(runs, &RunResult::predicted_step));
    measured.push_back(middle(runs, &RunResult::measured_step));
    result.runs += std::ssize(runs);
  }
  const auto chosen = std::ranges::min_element(predicted) - predicted.begin();
  const double regret = measured[static_cast<std::size_t>(chosen)] /
                            *std::ranges::min_element(measured) -
                        1;
  ++result.questions;
  result.tau += kendall_tau(predicted, measured);
  result.mean_regret += regret;
  result.worst_regret = std::max(result.worst_regret, regret);
}

void settle(RankingResult& result) {
  if (result.questions == 0) return;
  const auto count = static_cast<double>(result.questions);
  result.tau /= count;
  result.mean_regret /= count;
}

}  // namespace

double kendall_tau(const std::vector<double>& a, const std::vector<double>& b) {
  std::int64_t agree = 0, pairs = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (a[i] == a[j] || b[i] == b[j]) continue;
      agree += (a[i] < a[j]) == (b[i] < b[j]) ? 1 : -1;
      ++pairs;
    }
  }
  if (pairs == 0) return 0;
  return static_cast<double>(agree) / static_cast<double>(pairs);
}

std::vector<RankingResult> rank_runs(const std::vector<RunResult>& runs) {
  std::vector<RankingResult> results;
  for (const auto& [key, layouts] : questions_of(runs)) {
    if (results.empty() || results.back().source != key.first)
      results.push_back({.source = key.first});
    add_question(results.back(), layouts);
  }
  for (RankingResult& result : results) settle(result);
  return results;
}

RankingResult rank_all(const std::vector<RunResult>& runs) {
  RankingResult all;
  for (const auto& [key, layouts] : questions_of(runs))
    add_question(all, layouts);
  settle(all);
  return all;
}

FitResult count_fits(const std::vector<RunResult>& runs) {
  FitResult result;
  for (const RunResult& run : runs) {
    if (!run.fit) continue;
    ++(run.ran_out ? result.ran_out : result.ran);
    if (run.ran_out && run.fit == Fit::tight) ++result.tight;
    if (run.fit != Fit::does_not_fit) continue;
    ++(run.ran_out ? result.called : result.refused);
  }
  return result;
}

}  // namespace ztplan
