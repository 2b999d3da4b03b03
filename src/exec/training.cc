#include "exec/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "exec/checkpoint.h"
#include "exec/checkpoint_store.h"
#include "exec/loss_scale.h"
#include "exec/saved_states.h"
#include "exec/thread_communicator.h"

namespace ztplan {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// What ranks of one process share. Ranks write under the mutex, or their own
/// place.
struct Shared {
  std::mutex mutex;
  std::vector<RankFile> files;  // by rank, of the checkpoint being made
  std::string place;            // where it is made
  std::optional<CheckpointStore> store;
  WholeWeights weights;
  TrainingOutcome outcome;
  std::exception_ptr failure;
};

class RankTraining {
 public:
  RankTraining(const TrainingJob& job, Device& device, Communicator& world,
               Shared& shared)
      : job_(job),
        device_(device),
        world_(world),
        shared_(shared),
        engine_(device, world, job.setting, job.engine, job.strategy,
                job.options.offload_folder),
        scale_(job.setting.workload.precision) {}

  void run(const std::atomic<bool>& stop,
           const std::function<void(const StepReport&)>& report) {
    begin();
    while (step_ < job_.options.learning_rate.steps) {
      const StepReport done = take_step();
      if (is_first()) report(done);
      ++step_;
      if (agree_to_stop(stop)) {
        if (is_first()) shared_.outcome.interrupted = true;
        break;
      }
      if (saves_now()) save();
    }
    if (!options().path.empty() && saved_ != step_) save();
    end_with_weights();
    measure();
  }

 private:
  const CheckpointOptions& options() const { return job_.options.checkpoint; }
  bool is_first() const { return world_.rank() == 0; }

  void begin() {
    engine_.initialize(job_.options.seed);
    const std::vector<std::int64_t> whole =
        options().resume ? whole_checkpoints(options().path)
                         : std::vector<std::int64_t>{};
    if (whole.empty()) return begin_with_weights();
    Checkpoint checkpoint =
        Checkpoint::open(checkpoint_directory(options().path, whole.back()));
    const RunState& state = checkpoint.manifest().state;
    if (state.model != job_.setting.model.name)
      throw Error(fmt::format("the checkpoint is of {}, the plan of {}",
                              state.model, job_.setting.model.name));
    load_states(engine_, checkpoint);
    step_ = saved_ = state.step;
    scale_.set(static_cast<float>(state.loss_scale));
    if (is_first()) shared_.outcome.resumed_from = step_;
  }

  void begin_with_weights() {
    if (job_.options.weights.empty()) return;
    load_weights(engine_,
                 HuggingFaceWeights(TensorFiles::open(job_.options.weights),
                                    weight_names_of(job_.setting.model)));
  }

  void end_with_weights() {
    if (job_.options.save_weights.empty()) return;
    {
      const std::lock_guard lock(shared_.mutex);
      collect_weights(engine_, shared_.weights);
    }
    barrier();
    if (is_first())
      save_weights(job_.setting.model, shared_.weights,
                   job_.options.save_weights);
  }

  StepReport take_step() {
    StepReport report{step_ + 1,
                      {},
                      rate_at(job_.options.learning_rate, step_),
                      scale_.value(),
                      {}};
    StepRunner::Numbers numbers;
    numbers.step.learning_rate = static_cast<float>(report.learning_rate);
    numbers.step.weight_decay = job_.options.weight_decay;
    numbers.step.step = step_ + 1;
    numbers.clip = job_.options.clip;
    numbers.balance = job_.options.balance;
    numbers.loss_scale = scale_.value();
    const auto start = Clock::now();
    report.result = engine_.step(windows(), step_, numbers);
    report.seconds = {
        std::chrono::duration<double>(Clock::now() - start).count()};
    if (report.result.skipped && !scale_.can_shrink())
      throw Error(
          fmt::format("step {}: the loss is {} and its gradients are not "
                      "finite",
                      step_ + 1, report.result.loss),
          "a smaller --learning-rate, or --resume from the last checkpoint");
    scale_.after_step(report.result.skipped);
    keep(report);
    return report;
  }

  Windows windows() const {
    return [this](std::int64_t index) {
      const auto length = static_cast<std::size_t>(job_.samples.sequence());
      std::vector<std::int32_t> window(length + 1), targets(length);
      job_.samples.read(index, std::span(window).first(length), targets);
      window.back() = targets.back();
      return window;
    };
  }

  /// What rank 0 was told, at a step all ranks have reached.
  bool agree_to_stop(const std::atomic<bool>& stop) {
    float told = stop.load() ? 1 : 0;
    const Array message{reinterpret_cast<std::byte*>(&told), 1,
                        Precision::fp32};
    if (world_.size() > 1) world_.broadcast(Lane::compute, message, 0);
    device_.synchronize();
    return told != 0;
  }

  bool saves_now() const {
    return !options().path.empty() && options().every > 0 &&
           step_ % options().every == 0;
  }

  void barrier() {
    world_.barrier(Lane::compute);
    device_.synchronize();
  }

  void save() {
    if (is_first()) shared_.place = shared_.store->begin(step_);
    barrier();
    const StatesToSave states = states_to_save(engine_);
    shared_.files[static_cast<std::size_t>(world_.rank())] =
        write_rank_file(shared_.place, world_.rank(), states.tensors);
    barrier();
    if (is_first())
      shared_.store->finish(join(state(), shared_.files), options().keep);
    barrier();
    saved_ = step_;
  }

  RunState state() const {
    RunState state;
    state.step = step_;
    state.seed = job_.options.seed;
    state.samples = step_ * job_.setting.workload.global_batch;
    state.loss_scale = scale_.value();
    state.strategy = to_text(job_.strategy);
    state.model = job_.setting.model.name;
    return state;
  }

  void keep(const StepReport& report) {
    seconds_.push_back(report.seconds.value);
    for (std::size_t i = 0; i < terms_.size(); ++i)
      terms_[i].push_back(report.result.terms[i].value);
    spans_ = report.result.spans;
  }

  /// The rank with the highest peak tells its memory and calls, rank 0 its
  /// time, the first rank of every stage its tasks.
  void measure() {
    if (seconds_.empty()) return;
    const std::lock_guard lock(shared_.mutex);
    auto& measured = shared_.outcome.measured;
    if (!measured) measured.emplace();
    const MemoryUse use = device_.use(Tier::device);
    const bool is_fullest =
        use.peak > measured->device.peak ||
        (use.peak == measured->device.peak && world_.rank() < measured->rank);
    if (is_fullest) {
      measured->device = use;
      measured->host = device_.use(Tier::host);
      measured->rank = world_.rank();
      measured->tally = engine_.context().tally;
      measured->tally.divide(static_cast<std::int64_t>(seconds_.size()));
    }
    if (is_first()) {
      shared_.outcome.steps = step_;
      measured->step = {median(seconds_)};
      for (std::size_t i = 0; i < terms_.size(); ++i)
        measured->terms[i] = {median(terms_[i])};
    }
    const Strategy& s = job_.strategy;
    if (world_.rank() % (s.tensor * s.context * s.data) != 0) return;
    std::vector<Span>& spans = measured->timeline.spans;
    spans.resize(spans_.size());
    for (std::size_t i = 0; i < spans_.size(); ++i)
      if (spans_[i].end > spans[i].end) spans[i] = spans_[i];
  }

  const TrainingJob& job_;
  Device& device_;
  Communicator& world_;
  Shared& shared_;
  RankEngine engine_;
  LossScale scale_;
  std::int64_t step_ = 0, saved_ = 0;
  std::vector<double> seconds_;
  std::array<std::vector<double>, kTimeTerms> terms_;
  std::vector<Span> spans_;
};

}  // namespace

TrainingOutcome run_training(
    const TrainingJob& job, const std::atomic<bool>& stop,
    const std::function<void(const StepReport&)>& report) {
  const int ranks = devices(job.strategy);
  Shared shared;
  shared.files.resize(static_cast<std::size_t>(ranks));
  if (!job.options.checkpoint.path.empty())
    shared.store.emplace(job.options.checkpoint.path);
  ThreadWorld world(ranks, job.options.patience);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto device =
          make_cpu_device(job.options.lanes, job.setting.cluster.device.memory);
      const auto communicator = world.join(rank, *device);
      try {
        RankTraining(job, *device, *communicator, shared).run(stop, report);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(shared.mutex);
          if (!shared.failure) shared.failure = std::current_exception();
        }
        communicator->abort(error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (shared.failure) std::rethrow_exception(shared.failure);
  return std::move(shared.outcome);
}

}  // namespace ztplan
