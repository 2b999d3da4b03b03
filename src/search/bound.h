// A lower bound of a step, read from the same price list as its simulation.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "search/frame.h"

namespace ztplan {

class StepBound {
 public:
  explicit StepBound(FrameCache& cache) : cache_(cache) {}

  /// At most `estimate_step(...).total()`: the passes of the longest path or
  /// the busiest other lane, then gradient norm, optimizer and parameter
  /// gather. Requires a legal strategy.
  Seconds least_step(const Engine& engine, const Strategy& strategy);

 private:
  /// The end of a step on one stage, had it no offload.
  struct Finish {
    std::int64_t owned = 0;  // parameters whose states this device has
    Seconds optimizer, gather;
  };
  /// A share of a stage's layers that is gathered and reduced at once.
  struct Unit {
    Bytes owned;
    double count = 0;
  };
  /// What ZeRO stage and shard group decide; offload reads it.
  struct States {
    std::vector<Finish> stages;
    std::vector<Unit> units;  // of stage 0, when fully sharded
    Seconds data;             // collectives of one micro-batch on stage 0
    Seconds reduced;          // by the last backward of stage 0's first chunk
    bool beside = false;      // it, or after it
    Seconds norm;
  };

  const States& states(const StepParts& parts, const Frame& frame);
  States make_states(const StepParts& parts, const Frame& frame);
  Seconds last_reduction(const StepParts& parts, const Frame& frame);
  void add_collectives(const StepParts& parts, const Frame& frame,
                       States& states);
  Seconds seconds(const Recipe& recipe);
  Seconds finish(const StepParts& parts, const Finish& stage) const;
  Seconds fetches(const StepParts& parts, const States& states,
                  Channel channel) const;

  FrameCache& cache_;
  /// By engine and all of a strategy but recomputation, micro-batch, schedule
  /// and offload.
  std::map<std::pair<const Engine*, Strategy>, States> states_;
};

}  // namespace ztplan
