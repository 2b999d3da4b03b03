#include "search/rank.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>

#include "search/bound.h"
#include "search/enumerate.h"
#include "search/evaluate.h"
#include "search/frame.h"

namespace ztplan {
namespace {

constexpr std::int64_t kProgressEvery = 4096;  // candidates

/// A strategy that fits. `time` is a lower bound until it is exact.
struct Candidate {
  Strategy strategy;
  const Engine* engine;
  Bytes peak;
  Seconds time;
};

/// A place in the queue: the better objective first; of steps that take equally
/// long the lower ZeRO stage, which asks less of the network and of the user;
/// then the candidate that was enumerated first. Bounds come before what they
/// may turn out to be.
struct Place {
  double first;
  int zero;
  double second;
  std::size_t index;
  bool exact;
  bool operator>(const Place& other) const {
    return std::tie(first, zero, second, index) >
           std::tie(other.first, other.zero, other.second, other.index);
  }
};

class Ranker {
 public:
  Ranker(Question question, const Progress& progress)
      : q_(std::move(question)),
        progress_(progress),
        kinds_(layer_kinds(q_.model)),
        cache_(q_, kinds_),
        bound_(cache_),
        capacity_(usable_memory(q_.cluster, q_.margin)) {}

  Ranking run() {
    enumerate(q_, [this](const Strategy& strategy) { consider(strategy); });
    ranking_.fit = static_cast<std::int64_t>(candidates_.size());
    count_rules();
    pick_best();
    return std::move(ranking_);
  }

 private:
  void consider(const Strategy& strategy) {
    ++ranking_.candidates;
    if (progress_ && ranking_.candidates % kProgressEvery == 0)
      progress_(ranking_.candidates);
    const Engine* engine = legal_engine(strategy);
    if (engine == nullptr) return;
    const Frame& frame = cache_.frame(*engine, strategy);
    if (is_farther({Tier::device, frame.least_peak - capacity_})) {
      ++ranking_.too_big;
      return;
    }
    Bytes peak;
    std::optional<Miss> miss;
    for (const StageBase& base : frame.stages) {
      const Fullness full = fullness(held(*engine, frame, strategy, base));
      const auto lack = shortage(q_, full);
      peak = std::max(peak, full.device);
      if (!lack) continue;
      if (is_farther(*lack)) {
        ++ranking_.too_big;
        return;
      }
      if (!miss || miss->lack.missing < lack->missing) miss = {&base, *lack};
    }
    if (miss) return reject(*engine, frame, strategy, *miss);
    candidates_.push_back(
        {strategy, engine, peak, bound_.least_step(*engine, strategy)});
  }

  /// The stage that lacks most.
  struct Miss {
    const StageBase* base;
    Shortage lack;
  };

  Ledger held(const Engine& engine, const Frame& frame,
              const Strategy& strategy, const StageBase& base) const {
    const StageShape& shape =
        (*frame.shapes)[static_cast<std::size_t>(base.stage)];
    return ledger(cache_.setting(), engine, frame.cut->sizes, shape, strategy,
                  base);
  }

  /// Whether a strategy that lacks at least this much is no nearer miss.
  bool is_farther(const Shortage& lack) const {
    const auto& nearest = ranking_.nearest_miss;
    return nearest && nearest->missing <= lack.missing;
  }

  /// The first engine whose rules hold. The rule that the last one breaks is
  /// counted: an earlier engine's refusal alone makes nothing illegal.
  const Engine* legal_engine(const Strategy& strategy) {
    const Rule* broken = nullptr;
    for (const Engine* engine : q_.engines) {
      broken = broken_rule(*engine, cache_.setting(), strategy);
      if (broken == nullptr) return engine;
    }
    ++ranking_.illegal;
    ++broken_[broken];
    return nullptr;
  }

  void reject(const Engine& engine, const Frame& frame,
              const Strategy& strategy, const Miss& miss) {
    ++ranking_.too_big;
    const Ledger book = held(engine, frame, strategy, *miss.base);
    ranking_.nearest_miss = {strategy, estimate_memory(book, miss.base->stage),
                             miss.lack.tier, miss.lack.missing};
  }

  void count_rules() {
    for (const auto& [rule, count] : broken_)
      ranking_.illegal_by_rule.push_back({rule->name, count});
    std::sort(ranking_.illegal_by_rule.begin(), ranking_.illegal_by_rule.end(),
              [](const RuleCount& a, const RuleCount& b) {
                return std::tie(b.count, a.rule) < std::tie(a.count, b.rule);
              });
  }

  Place place(std::size_t index, bool exact) const {
    const Candidate& c = candidates_[index];
    const double peak = static_cast<double>(c.peak.value);
    if (q_.objective == Objective::memory)
      return {peak, 0, c.time.value, index, exact};
    return {ranked_time(c.time), c.strategy.zero, peak, index, exact};
  }

  /// Best first: whoever leads with a bound is simulated and queued again; who
  /// leads with an exact time beats all that are left.
  void pick_best() {
    std::vector<Place> places;
    places.reserve(candidates_.size());
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      places.push_back(place(i, false));
    std::priority_queue queue(std::greater<Place>{}, std::move(places));
    const auto wanted = static_cast<std::size_t>(q_.top);
    while (!queue.empty() && ranking_.plans.size() < wanted) {
      const Place lead = queue.top();
      queue.pop();
      Candidate& c = candidates_[lead.index];
      if (lead.exact) {
        ranking_.plans.push_back(evaluate(q_, *c.engine, c.strategy));
        continue;
      }
      c.time = estimate_step(cache_.setting(), *c.engine, c.strategy,
                             cache_.machine())
                   .total();
      ++ranking_.simulated;
      queue.push(place(lead.index, true));
    }
  }

  const Question q_;
  const Progress& progress_;
  LayerKinds kinds_;
  FrameCache cache_;
  StepBound bound_;
  Bytes capacity_;
  Ranking ranking_;
  std::map<const Rule*, std::int64_t> broken_;
  std::vector<Candidate> candidates_;
};

Question with_devices(const Question& question, int devices) {
  Question part = question;
  part.cluster = first_devices(question.cluster, devices);
  return part;
}

void add_counts(Ranking& sum, const Ranking& part) {
  sum.candidates += part.candidates;
  sum.illegal += part.illegal;
  sum.too_big += part.too_big;
  sum.fit += part.fit;
  sum.simulated += part.simulated;
}

double device_seconds(const Plan& plan) {
  return plan.gpus * plan.time.total().value;
}

/// The fewest devices that hold the model, and the fastest plans on them.
Ranking fewest_devices(const Question& question, const Progress& progress) {
  Ranking ranking, counts;
  for (const int devices : device_counts(question.cluster)) {
    ranking = Ranker(with_devices(question, devices), progress).run();
    add_counts(counts, ranking);
    if (ranking.fit > 0) break;
  }
  ranking.candidates = ranking.illegal = ranking.too_big = 0;
  ranking.fit = ranking.simulated = 0;
  add_counts(ranking, counts);
  return ranking;
}

/// Least device time a step, which is least cost where all devices cost alike,
/// over all counts of devices.
Ranking cheapest(const Question& question, const Progress& progress) {
  Ranking ranking;
  for (const int devices : device_counts(question.cluster)) {
    Ranking part = Ranker(with_devices(question, devices), progress).run();
    add_counts(ranking, part);
    std::move(part.plans.begin(), part.plans.end(),
              std::back_inserter(ranking.plans));
    ranking.illegal_by_rule = std::move(part.illegal_by_rule);
    ranking.nearest_miss = std::move(part.nearest_miss);
  }
  std::stable_sort(ranking.plans.begin(), ranking.plans.end(),
                   [](const Plan& a, const Plan& b) {
                     return device_seconds(a) < device_seconds(b);
                   });
  if (ranking.plans.size() > static_cast<std::size_t>(question.top))
    ranking.plans.resize(static_cast<std::size_t>(question.top));
  return ranking;
}

}  // namespace

double ranked_time(Seconds step) {
  constexpr double kNanosecondsOfSecond = 1e9;
  return std::floor(step.value * kNanosecondsOfSecond);
}

Ranking rank(const Question& question, const Progress& progress) {
  if (question.objective == Objective::gpus)
    return fewest_devices(question, progress);
  if (question.objective == Objective::cost)
    return cheapest(question, progress);
  return Ranker(question, progress).run();
}

}  // namespace ztplan
