// One rank of a training run: its groups, its part of the model, and the steps
// it takes.
#pragma once

#include <memory>

#include "exec/step_runner.h"

namespace ztplan {

/// `window(i)` is the i-th sequence of the data: `sequence` tokens and the one
/// after them.
using Windows = std::function<std::vector<std::int32_t>(std::int64_t index)>;

class RankEngine {
 public:
  /// Rank `world.rank()` of the strategy. Collective over `world`. All
  /// arguments outlive this.
  /// `offload_folder` is where files that stand for memory go.
  RankEngine(Device& device, Communicator& world, const Setting& setting,
             const Engine& engine, const Strategy& strategy,
             const std::string& offload_folder);
  ~RankEngine();
  RankEngine(const RankEngine&) = delete;
  RankEngine& operator=(const RankEngine&) = delete;

  /// Writes this rank's part of weights that depend on `seed` and on an
  /// element's place in the model alone.
  void initialize(std::uint64_t seed);

  /// Step `number` (from 0 on) over windows number * global_batch and on.
  StepResult step(const Windows& windows, std::int64_t number,
                  const StepRunner::Numbers& numbers);

  /// Makes weights of masters that were written: collective.
  void settle_weights();

  const StageUnits& units() const;
  StageStates& states() const;
  const RankContext& context() const;
  int stage() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ztplan
