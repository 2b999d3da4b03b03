// A training run: ranks as threads of this process or as one of several, step
// after step, with checkpoints; what it reports, and what it measured.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "exec/cpu_device.h"
#include "exec/learning_rate.h"
#include "exec/rank_engine.h"
#include "exec/samples.h"

namespace ztplan {

struct CheckpointOptions {
  std::string path;        // empty: none
  std::int64_t every = 0;  // steps; 0: at the end alone
  int keep = 2;
  bool resume = false;
};

struct TrainingOptions {
  LearningRate learning_rate;  // with the steps of the run
  std::uint64_t seed = 1;
  float weight_decay = 0.1F;
  float clip = 1;         // of the gradient norm; 0: none
  float balance = 0.01F;  // of experts
  CpuLanes lanes = CpuLanes::immediate;
  std::chrono::milliseconds patience{600'000};  // for ranks that do not come
  CheckpointOptions checkpoint;
  std::string weights;               // a Hugging Face checkpoint to begin with
  std::string save_weights;          // a safetensors file to end with
  std::string offload_folder = ".";  // of files that stand for memory
};

struct TrainingJob {
  Setting setting;
  const Engine& engine;
  const Strategy& strategy;
  TrainingOptions options;
  const Samples& samples;
};

/// One step, as rank 0 saw it.
struct StepReport {
  std::int64_t step = 0;  // from 1 on
  StepResult result;
  double learning_rate = 0, loss_scale = 1;
  Seconds seconds;
};

/// Of the rank with the highest peak; of one step each.
struct Measured {
  MemoryUse device, host;
  int rank = 0;
  Tally tally;
  std::array<Seconds, kTimeTerms> terms{};  // median step of rank 0
  Seconds step;                             // median
  Timeline timeline;  // of the last step, a rank of every stage
};

struct TrainingOutcome {
  std::int64_t steps = 0;  // done, those of earlier runs too
  std::int64_t resumed_from = 0;
  bool interrupted = false;
  std::optional<Measured> measured;  // none where no step was run
};

/// Trains until the last step, or until `*stop` is set: then the step at hand
/// is finished and, with a checkpoint path, saved. `report` is called on one
/// thread. Throws the first failure of a rank, once all ranks have ended.
TrainingOutcome run_training(
    const TrainingJob& job, const std::atomic<bool>& stop,
    const std::function<void(const StepReport&)>& report);

/// The same as one rank of `world`, with `*stop` of any rank stopping all.
/// Checkpoints go to a directory that all ranks share, weights to a file of
/// rank 0. `report` is called, and `measured` there, on rank 0 alone. What it
/// throws the others do not know: end their world.
TrainingOutcome run_training_rank(
    const TrainingJob& job, Device& device, Communicator& world,
    const std::atomic<bool>& stop,
    const std::function<void(const StepReport&)>& report);

}  // namespace ztplan
