#include "search/remedy.h"

#include <fmt/format.h>

#include <algorithm>

namespace ztplan {
namespace {

constexpr int kHighestZero = 3;

/// One changed question and strategy.
struct Change {
  std::string what;
  Question question;
  Strategy strategy;
};

class Changes {
 public:
  Changes(const Question& question, const Strategy& strategy)
      : question_(question), strategy_(strategy) {}

  std::vector<Change> all() && {
    smaller_micro_batches();
    recomputation();
    higher_zero();
    offload();
    smaller_bucket();
    workload();
    more_tensor();
    more_gpus();
    return std::move(changes_);
  }

 private:
  void add(std::string what, const Question& question, const Strategy& s) {
    changes_.push_back({std::move(what), question, s});
  }
  void add(std::string what, const Strategy& s) {
    add(std::move(what), question_, s);
  }

  void smaller_micro_batches() {
    for (int micro = strategy_.micro_batch / 2; micro >= 1; micro /= 2) {
      Strategy s = strategy_;
      s.micro_batch = micro;
      add(fmt::format("micro-batch {} instead of {}, {} times the "
                      "accumulation",
                      micro, strategy_.micro_batch,
                      strategy_.micro_batch / micro),
          s);
    }
  }

  void recomputation() {
    using Mode = Recompute::Mode;
    const Recompute options[] = {{.mode = Mode::selective, .attention = true},
                                 {.mode = Mode::selective, .op = true},
                                 {.mode = Mode::full}};
    for (const Recompute& option : options) {
      if (strategy_.recompute == option ||
          strategy_.recompute.mode == Mode::full)
        continue;
      Strategy s = strategy_;
      s.recompute = option;
      add(fmt::format("recompute={} instead of {}", to_text(option),
                      to_text(strategy_.recompute)),
          s);
    }
  }

  void higher_zero() {
    for (int zero = strategy_.zero + 1; zero <= kHighestZero; ++zero) {
      Strategy s = strategy_;
      s.zero = zero;
      add(fmt::format("ZeRO stage {} instead of {}", zero, strategy_.zero), s);
    }
  }

  void offload() {
    for (const char* text : {"cpu", "cpu+parameters", "nvme+parameters"}) {
      Strategy s = strategy_;
      s.offload = parse_offload(text);
      if (s.offload == strategy_.offload) continue;
      if (strategy_.offload.optimizer > s.offload.optimizer) continue;
      add(fmt::format("offload={}", text), s);
    }
  }

  void smaller_bucket() {
    constexpr std::int64_t kSmall = 50'000'000;
    if (strategy_.tuning.bucket.value_or(kSmall + 1) <= kSmall) return;
    Strategy s = strategy_;
    s.tuning.bucket = kSmall;
    add("buckets of 5e7 elements", s);
  }

  void workload() {
    const Workload& w = question_.workload;
    const auto with = [&](std::string what, auto change) {
      Question other = question_;
      change(other.workload);
      add(std::move(what), other, strategy_);
    };
    if (w.attention == AttentionKernel::eager)
      with("flash attention",
           [](Workload& other) { other.attention = AttentionKernel::flash; });
    if (w.loss != LossKernel::chunked && w.loss != LossKernel::fused_linear)
      with("chunked or fused cross-entropy",
           [](Workload& other) { other.loss = LossKernel::chunked; });
    if (w.optimizer == OptimizerKind::adam &&
        strategy_.offload.optimizer == OffloadTier::none)
      with("8-bit Adam",
           [](Workload& other) { other.optimizer = OptimizerKind::adam8bit; });
    if (strategy_.offload.optimizer != OffloadTier::none) {
      Question other = question_;
      other.workload.optimizer = OptimizerKind::adam8bit;
      Strategy s = strategy_;
      s.offload = {};
      add("8-bit Adam on the GPU instead of offload", other, s);
    }
    if (!w.adapters.any()) {
      Question other = question_;
      other.workload.adapters = parse_adapters("r=8,targets=all");
      Strategy s = strategy_;
      s.offload.optimizer = OffloadTier::none;
      add("LoRA adapters (r=8) instead of all weights", other, s);
    }
  }

  void more_tensor() {
    Strategy s = strategy_;
    s.tensor *= 2;
    if (s.data % 2 != 0) return;
    s.data /= 2;
    add(fmt::format("tp {} instead of {}", s.tensor, strategy_.tensor), s);
  }

  /// The same grid with more data parallel ranks.
  void more_gpus() {
    for (const int times : {2, 4}) {
      Question other = question_;
      Strategy s = strategy_;
      s.data *= times;
      const std::int64_t devices =
          std::int64_t{question_.cluster.devices} * times;
      const int per_node = question_.cluster.devices_per_node;
      if (devices > kMaxSize || devices % per_node != 0) continue;
      other.cluster = with_devices(question_.cluster, times);
      add(fmt::format("{} GPUs instead of {}", devices,
                      question_.cluster.devices),
          other, s);
    }
  }

  static ClusterSpec with_devices(ClusterSpec cluster, int times) {
    cluster.devices *= times;
    if (!cluster.levels.empty()) {
      Level& outer = cluster.levels.back();
      outer.fanout *= times;
      if (outer.capacity > 0)
        outer.capacity = std::max(outer.capacity, outer.fanout);
    }
    return cluster;
  }

  const Question& question_;
  const Strategy& strategy_;
  std::vector<Change> changes_;
};

bool is_better(const Remedy& a, const Remedy& b) {
  if (a.fits != b.fits) return a.fits;
  if (!a.fits) return a.plan.memory.peak() < b.plan.memory.peak();
  const auto pace = [](const Remedy& r) {
    return r.plan.time.total().value * r.plan.gpus;
  };
  return pace(a) < pace(b);
}

/// Whether a change frees memory of the tier that `before` lacks, or of the
/// device when it lacks none.
bool frees(const Remedy& remedy, const Question& question, const Plan& before) {
  if (const auto lack = shortage(question, before.memory)) {
    const auto left = shortage(remedy.question, remedy.plan.memory);
    return !left || left->tier != lack->tier || left->missing < lack->missing;
  }
  constexpr double kLeastShare = 0.01;  // less is not worth a change
  const Bytes peak = before.memory.peak();
  return (peak - remedy.plan.memory.peak()) / peak >= kLeastShare;
}

bool is_legal(const Change& change, const Engine& engine) {
  const Setting setting{change.question.model, change.question.cluster,
                        change.question.workload};
  return broken_rule(engine, setting, change.strategy) == nullptr;
}

std::vector<Change> legal_changes(const Question& question,
                                  const Engine& engine,
                                  const Strategy& strategy) {
  std::vector<Change> all = Changes(question, strategy).all();
  std::erase_if(
      all, [&](const Change& change) { return !is_legal(change, engine); });
  return all;
}

Remedy remedy_of(Change change, const Engine& engine) {
  Remedy remedy{std::move(change.what), std::move(change.question), {}};
  remedy.plan = evaluate(remedy.question, engine, change.strategy);
  remedy.fits = !shortage(remedy.question, remedy.plan.memory);
  return remedy;
}

/// Whether a change fits, by its memory alone.
bool is_small_enough(const Change& change, const Engine& engine) {
  const Setting setting{change.question.model, change.question.cluster,
                        change.question.workload};
  const auto stages = stage_memory(setting, engine, change.strategy);
  return std::ranges::none_of(stages, [&](const MemoryBreakdown& stage) {
    return shortage(change.question, stage).has_value();
  });
}

/// A second change on top of each of `first`, where the two fit together.
std::vector<Remedy> pairs(const std::vector<Change>& first,
                          const Engine& engine) {
  std::vector<Remedy> found;
  for (std::size_t i = 0; i < first.size(); ++i) {
    std::vector<Change> second =
        legal_changes(first[i].question, engine, first[i].strategy);
    for (Change& change : second) {
      if (!is_small_enough(change, engine)) continue;
      const bool known = std::ranges::any_of(found, [&](const Remedy& remedy) {
        return remedy.plan.strategy == change.strategy &&
               remedy.question.workload == change.question.workload &&
               remedy.question.cluster == change.question.cluster;
      });
      if (known) continue;
      change.what = first[i].what + "; " + change.what;
      found.push_back(remedy_of(std::move(change), engine));
    }
  }
  return found;
}

/// The first `most`, best first.
std::vector<Remedy> best(std::vector<Remedy> found, std::size_t most) {
  std::stable_sort(found.begin(), found.end(), is_better);
  if (found.size() > most)
    found.erase(found.begin() + static_cast<std::ptrdiff_t>(most), found.end());
  return found;
}

}  // namespace

std::vector<Remedy> remedies(const Question& question, const Engine& engine,
                             const Strategy& strategy, std::size_t most) {
  const std::vector<Change> changes = legal_changes(question, engine, strategy);
  std::vector<Remedy> found;
  found.reserve(changes.size());
  for (const Change& change : changes)
    found.push_back(remedy_of(change, engine));
  const Plan before = evaluate(question, engine, strategy);
  std::erase_if(found, [&](const Remedy& remedy) {
    return !frees(remedy, question, before);
  });
  const bool alone = std::ranges::any_of(found, &Remedy::fits);
  if (!alone) {
    std::vector<Remedy> both = pairs(changes, engine);
    if (!both.empty()) found = std::move(both);
  }
  return best(std::move(found), most);
}

std::vector<Remedy> host_remedies(const Question& question,
                                  const Engine& engine,
                                  const Strategy& strategy, std::size_t most) {
  const Bytes before = host_taken(evaluate(question, engine, strategy).memory);
  std::vector<Remedy> found;
  for (Change& change : legal_changes(question, engine, strategy)) {
    Remedy remedy = remedy_of(std::move(change), engine);
    if (host_taken(remedy.plan.memory) < before)
      found.push_back(std::move(remedy));
  }
  return best(std::move(found), most);
}

}  // namespace ztplan
