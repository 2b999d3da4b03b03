#include "exec/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>

#include "base/error.h"
#include "exec/checkpoint.h"
#include "exec/checkpoint_store.h"
#include "exec/gather_texts.h"
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

/// What ranks of one process share.
struct Shared {
  std::mutex mutex;
  TrainingOutcome outcome;     // of rank 0
  std::exception_ptr failure;  // under the mutex
};

/// What one rank measured, to be told to rank 0; its spans follow.
struct RankMeasure {
  MemoryUse device, host;
  Tally tally;
};
static_assert(std::is_trivially_copyable_v<RankMeasure> &&
              std::is_trivially_copyable_v<Span>);

std::string to_text(const RankMeasure& measure,
                    const std::vector<Span>& spans) {
  std::string text(sizeof measure + spans.size() * sizeof(Span), '\0');
  std::memcpy(text.data(), &measure, sizeof measure);
  if (!spans.empty())
    std::memcpy(text.data() + sizeof measure, spans.data(),
                spans.size() * sizeof(Span));
  return text;
}

RankMeasure measure_in(const std::string& text) {
  RankMeasure measure;
  std::memcpy(&measure, text.data(), sizeof measure);
  return measure;
}

std::vector<Span> spans_in(const std::string& text) {
  const std::size_t bytes = text.size() - sizeof(RankMeasure);
  std::vector<Span> spans(bytes / sizeof(Span));
  if (!spans.empty())
    std::memcpy(spans.data(), text.data() + sizeof(RankMeasure), bytes);
  return spans;
}

/// The files of all ranks from manifests of one file each.
std::vector<RankFile> files_in(const std::vector<std::string>& manifests) {
  std::vector<RankFile> files;
  for (const std::string& text : manifests) {
    Manifest manifest = parse_manifest(text, "a rank's part of a checkpoint");
    files.push_back({manifest.files.at(0), std::move(manifest.tensors)});
  }
  return files;
}

class RankTraining {
 public:
  RankTraining(const TrainingJob& job, Device& device, Communicator& world,
               CheckpointStore* store)
      : job_(job),
        device_(device),
        world_(world),
        store_(store),
        engine_(device, world, job.setting, job.engine, job.strategy,
                job.options.offload_folder),
        scale_(job.setting.workload.precision) {}

  TrainingOutcome run(const std::atomic<bool>& stop,
                      const std::function<void(const StepReport&)>& report) {
    begin();
    while (step_ < job_.options.learning_rate.steps) {
      const StepReport done = take_step();
      if (is_first()) report(done);
      ++step_;
      if (agree_to_stop(stop)) {
        outcome_.interrupted = true;
        break;
      }
      if (saves_now()) save();
    }
    if (!options().path.empty() && saved_ != step_) save();
    end_with_weights();
    measure();
    return std::move(outcome_);
  }

 private:
  const CheckpointOptions& options() const { return job_.options.checkpoint; }
  bool is_first() const { return world_.rank() == 0; }

  void begin() {
    engine_.initialize(job_.options.seed);
    const std::int64_t newest = newest_checkpoint();
    if (newest < 0) return begin_with_weights();
    Checkpoint checkpoint =
        Checkpoint::open(checkpoint_directory(options().path, newest));
    const RunState& state = checkpoint.manifest().state;
    if (state.model != job_.setting.model.name)
      throw Error(fmt::format("the checkpoint is of {}, the plan of {}",
                              state.model, job_.setting.model.name));
    load_states(engine_, checkpoint);
    step_ = saved_ = state.step;
    scale_.set(static_cast<float>(state.loss_scale));
    outcome_.resumed_from = step_;
    barrier();  // all have read it before a save may remove it
  }

  /// Its step, or a negative number, as rank 0 sees the directory: others may
  /// see it later.
  std::int64_t newest_checkpoint() {
    std::int64_t newest = -1;
    if (is_first() && options().resume) {
      const auto whole = whole_checkpoints(options().path);
      if (!whole.empty()) newest = whole.back();
    }
    world_.broadcast(Lane::compute, bytes_at(&newest, sizeof newest), 0);
    device_.synchronize();
    return newest;
  }

  void begin_with_weights() {
    if (job_.options.weights.empty()) return;
    load_weights(engine_,
                 HuggingFaceWeights(TensorFiles::open(job_.options.weights),
                                    weight_names_of(job_.setting.model)));
  }

  void end_with_weights() {
    if (job_.options.save_weights.empty()) return;
    const std::vector<std::string> texts =
        gather_texts(world_, device_, weights_text(engine_));
    if (!is_first()) return;
    WholeWeights weights;
    for (const std::string& text : texts) add_weights(text, weights);
    save_weights(job_.setting.model, weights, job_.options.save_weights);
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
      throw Mishap(
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

  /// What any rank was told, at a step all ranks have reached.
  bool agree_to_stop(const std::atomic<bool>& stop) {
    float told = stop.load() ? 1 : 0;
    const Array message{reinterpret_cast<std::byte*>(&told), 1,
                        Precision::fp32};
    if (world_.size() > 1)
      world_.all_reduce(Lane::compute, message, Reduction::maximum);
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
    if (is_first()) store_->begin(step_);
    barrier();
    const StatesToSave states = states_to_save(engine_);
    RankFile mine = write_rank_file(checkpoint_directory(options().path, step_),
                                    world_.rank(), states.tensors);
    const std::vector<std::string> manifests = gather_texts(
        world_, device_,
        to_text(Manifest{state(), {mine.file}, std::move(mine.tensors)}));
    if (is_first())
      store_->finish(join(state(), files_in(manifests)), options().keep);
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
    outcome_.steps = step_;
    if (seconds_.empty()) return;
    RankMeasure mine{device_.use(Tier::device), device_.use(Tier::host),
                     engine_.context().tally};
    mine.tally.divide(static_cast<std::int64_t>(seconds_.size()));
    const std::vector<std::string> all =
        gather_texts(world_, device_, to_text(mine, spans_));
    if (!is_first()) return;
    Measured& measured = outcome_.measured.emplace();
    measured.step = {median(seconds_)};
    for (std::size_t i = 0; i < terms_.size(); ++i)
      measured.terms[i] = {median(terms_[i])};
    for (int rank = 0; rank < world_.size(); ++rank)
      add_rank(measured, rank, all[static_cast<std::size_t>(rank)]);
  }

  void add_rank(Measured& measured, int rank, const std::string& text) const {
    const RankMeasure told = measure_in(text);
    if (rank == 0 || told.device.peak > measured.device.peak) {
      measured.device = told.device;
      measured.host = told.host;
      measured.rank = rank;
      measured.tally = told.tally;
    }
    const Strategy& s = job_.strategy;
    if (rank % (s.tensor * s.context * s.data) != 0) return;
    const std::vector<Span> told_spans = spans_in(text);
    std::vector<Span>& spans = measured.timeline.spans;
    spans.resize(told_spans.size());
    for (std::size_t i = 0; i < spans.size(); ++i)
      if (told_spans[i].end > spans[i].end) spans[i] = told_spans[i];
  }

  const TrainingJob& job_;
  Device& device_;
  Communicator& world_;
  CheckpointStore* store_;  // of rank 0; null: keeps none
  RankEngine engine_;
  LossScale scale_;
  std::int64_t step_ = 0, saved_ = 0;
  std::vector<double> seconds_;
  std::array<std::vector<double>, kTimeTerms> terms_;
  std::vector<Span> spans_;
  TrainingOutcome outcome_;
};

/// With the directory's lock; null where no checkpoints are kept.
std::unique_ptr<CheckpointStore> open_store(const TrainingJob& job) {
  const std::string& path = job.options.checkpoint.path;
  return path.empty() ? nullptr : std::make_unique<CheckpointStore>(path);
}

void run_on_thread(const TrainingJob& job, ThreadWorld& world, int rank,
                   CheckpointStore* store, Shared& shared,
                   const std::atomic<bool>& stop,
                   const std::function<void(const StepReport&)>& report) {
  const auto device =
      make_cpu_device(job.options.lanes, job.setting.cluster.device.memory);
  const auto communicator = world.join(rank, *device);
  try {
    TrainingOutcome outcome =
        RankTraining(job, *device, *communicator, store).run(stop, report);
    if (rank == 0) shared.outcome = std::move(outcome);
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock(shared.mutex);
      if (!shared.failure) shared.failure = std::current_exception();
    }
    communicator->abort(error.what());
  }
}

}  // namespace

TrainingOutcome run_training(
    const TrainingJob& job, const std::atomic<bool>& stop,
    const std::function<void(const StepReport&)>& report) {
  const int ranks = devices(job.strategy);
  Shared shared;
  const auto store = open_store(job);
  ThreadWorld world(ranks, job.options.patience);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      run_on_thread(job, world, rank, store.get(), shared, stop, report);
    });
  for (std::thread& thread : threads) thread.join();
  if (shared.failure) std::rethrow_exception(shared.failure);
  return std::move(shared.outcome);
}

TrainingOutcome run_training_rank(
    const TrainingJob& job, Device& device, Communicator& world,
    const std::atomic<bool>& stop,
    const std::function<void(const StepReport&)>& report) {
  const auto store = world.rank() == 0 ? open_store(job) : nullptr;
  return RankTraining(job, device, world, store.get()).run(stop, report);
}

}  // namespace ztplan
