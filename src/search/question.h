// What is asked of the search, and what it answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/calibration.h"
#include "strategy/ledger.h"
#include "time/step_counts.h"
#include "time/step_time.h"

namespace ztplan {

/// What the user allows; an empty list allows all that make sense.
struct Limits {
  std::vector<int> tensor, pipeline, virtual_stages, data, context, expert;
  std::vector<int> expert_tensor;  // empty: 1 alone
  std::vector<int> zero, micro_batch;
  std::vector<Offload> offload;
  std::vector<Recompute> recompute;
  std::vector<Schedule> schedule;  // empty: those that every framework has
};

/// Fastest step; least device memory; least device time over all counts of
/// devices up to the cluster's; fewest devices, then fastest.
enum class Objective { time, memory, cost, gpus };

struct Question {
  ModelSpec model;
  ClusterSpec cluster;
  Workload workload;
  Calibration calibration;
  std::vector<const Engine*> engines;  // a strategy goes by the first it obeys
  Limits limits;
  Objective objective = Objective::time;
  int top = 5;
  double margin = 0;   // share of device memory to keep free
  double slowest = 1;  // in `calibration`: the device that all wait for
};

/// A strategy that fits, with all that is known of it.
struct Plan {
  Strategy strategy;
  const Engine* engine = nullptr;
  int gpus = 0;
  std::vector<MemoryBreakdown> stages;  // by stage
  MemoryBreakdown memory;               // of the fullest
  Bytes capacity;                       // device memory it may use
  StepTime time;
  Seconds low, high;  // the same graph with optimistic and pessimistic prices
  Traffic traffic;
  Throughput throughput;
};

/// A strategy that does not fit, and by how much.
struct NearMiss {
  Strategy strategy;
  MemoryBreakdown memory;
  Tier tier = Tier::device;
  Bytes missing;
};

struct RuleCount {
  std::string rule;
  std::int64_t count = 0;
};

struct Ranking {
  std::vector<Plan> plans;  // best first
  std::int64_t candidates = 0, illegal = 0, too_big = 0, fit = 0;
  std::int64_t simulated = 0;  // the others were proven slower by a bound
  std::vector<RuleCount> illegal_by_rule;  // most frequent first
  std::optional<NearMiss> nearest_miss;
};

}  // namespace ztplan
