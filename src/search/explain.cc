#include "search/explain.h"

#include <algorithm>
#include <cmath>

#include "search/enumerate.h"
#include "search/rank.h"

namespace ztplan {
namespace {

template <class Value>
void sort_by_size(std::vector<Difference<Value>>& differences) {
  std::erase_if(differences, [](const auto& d) { return d.ours == d.theirs; });
  std::stable_sort(differences.begin(), differences.end(),
                   [](const auto& a, const auto& b) {
                     return std::abs((a.ours - a.theirs).value) >
                            std::abs((b.ours - b.theirs).value);
                   });
}

std::vector<Misfit> misfits(const Question& question,
                            const Strategy& strategy) {
  const Setting setting{question.model, question.cluster, question.workload};
  std::vector<Misfit> found;
  for (const Engine* engine : question.engines)
    if (auto misfit = why_illegal(*engine, setting, strategy))
      if (found.empty() || found.back().rule != misfit->rule)
        found.push_back(*misfit);
  return found;
}

int first_or(const std::vector<int>& values, int none) {
  return values.empty() ? none : values.front();
}

/// The limits' first values, with as much data parallelism as there is room.
Strategy first_values(const Question& question) {
  const Limits& limits = question.limits;
  Strategy s;
  s.tensor = first_or(limits.tensor, 1);
  s.pipeline = first_or(limits.pipeline, 1);
  s.context = first_or(limits.context, 1);
  s.expert = first_or(limits.expert, 1);
  s.expert_tensor = first_or(limits.expert_tensor, 1);
  s.virtual_stages = first_or(limits.virtual_stages, 1);
  if (s.virtual_stages > 1) s.schedule = Schedule::interleaved;
  if (!limits.schedule.empty()) s.schedule = limits.schedule.front();
  s.micro_batch = first_or(limits.micro_batch, 1);
  const std::int64_t used = std::int64_t{s.tensor} * s.pipeline * s.context;
  const std::int64_t room = question.cluster.devices / used;
  s.data =
      first_or(limits.data, static_cast<int>(std::max<std::int64_t>(1, room)));
  return s;
}

std::optional<Plan> best_plan(Question question) {
  question.top = 1;
  Ranking ranking = rank(question, {});
  if (ranking.plans.empty()) return std::nullopt;
  return ranking.plans.front();
}

Verdict judge(const Explanation& e) {
  if (e.lack) return Verdict::does_not_fit;
  const bool slower = e.best && e.best->time.total() < e.plan->time.total();
  return slower ? Verdict::slower : Verdict::best;
}

}  // namespace

TimeDifferences time_differences(const Plan& ours, const Plan& theirs) {
  TimeDifferences differences;
  for (int i = 0; i < kTimeTerms; ++i) {
    const auto term = static_cast<TimeTerm>(i);
    differences.push_back(
        {std::string(to_text(term)), ours.time[term], theirs.time[term]});
  }
  sort_by_size(differences);
  return differences;
}

MemoryDifferences memory_differences(const Plan& ours, const Plan& theirs) {
  MemoryDifferences differences;
  for (int i = 0; i < kTerms; ++i) {
    const auto term = static_cast<Term>(i);
    differences.push_back(
        {std::string(to_text(term)), ours.memory[term], theirs.memory[term]});
  }
  sort_by_size(differences);
  return differences;
}

std::vector<Misfit> why_none(const Question& question) {
  std::optional<Strategy> first;
  enumerate(question, [&](const Strategy& strategy) {
    if (!first) first = strategy;
  });
  return misfits(question, first ? *first : first_values(question));
}

Explanation explain(const Question& question, const Strategy& strategy) {
  const bool is_legal = engine_for(question, strategy) != nullptr;
  return explain(question, strategy,
                 is_legal ? best_plan(question) : std::nullopt);
}

Explanation explain(const Question& question, const Strategy& strategy,
                    const std::optional<Plan>& best) {
  Explanation e;
  const Engine* engine = engine_for(question, strategy);
  if (engine == nullptr) {
    e.verdict = Verdict::illegal;
    e.misfits = misfits(question, strategy);
    return e;
  }
  e.plan = evaluate(question, *engine, strategy);
  e.lack = shortage(question, e.plan->memory);
  e.best = best;
  e.verdict = judge(e);
  if (e.best) {
    e.time = time_differences(*e.plan, *e.best);
    e.memory = memory_differences(*e.plan, *e.best);
  }
  return e;
}

}  // namespace ztplan
