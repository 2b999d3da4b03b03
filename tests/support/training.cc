#include "support/training.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "exec/safetensors.h"
#include "exec/thread_communicator.h"
#include "spec/catalog.h"
#include "step/build_step.h"
#include "support/replicas.h"
#include "support/temporary_directory.h"

namespace ztplan {
namespace {

constexpr std::chrono::seconds kPatience{60};
constexpr Bytes kMemory{std::int64_t{4} << 30};
constexpr std::uint64_t kSeed = 1234;

/// Tokens of window `index`: any, but the same for every layout.
std::vector<std::int32_t> window(std::int64_t index, int sequence, int vocab) {
  std::vector<std::int32_t> tokens;
  auto state = static_cast<std::uint64_t>(index) * 7919 + 13;
  for (int i = 0; i <= sequence; ++i) {
    // Knuth's MMIX generator.
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    tokens.push_back(static_cast<std::int32_t>((state >> 33) %
                                               static_cast<unsigned>(vocab)));
  }
  return tokens;
}

bool is_every_ones(const Task& task) {
  return task.kind == TaskKind::norm && task.lane == Lane::data;
}

Tally planned_calls(const StepGraph& graph, int stage, int steps) {
  Tally tally;
  for (const Task& task : graph.tasks()) {
    if (task.stage != stage && !is_every_ones(task)) continue;
    for (const Item& item :
         graph.recipes()[static_cast<std::size_t>(task.recipe)].items)
      if (const auto* call = std::get_if<Collective>(&item.work))
        tally.add(item.term, call->op, item.count * steps,
                  call->bytes * item.count * steps);
  }
  return tally;
}

/// Read once: combinations ask many times.
const ModelSpec& model_of(const std::string& text) {
  static std::map<std::string, ModelSpec> known;
  const auto found = known.find(text);
  if (found != known.end()) return found->second;
  return known.emplace(text, load_model(text)).first->second;
}
const ClusterSpec& machine_of(int ranks) {
  static std::map<int, ClusterSpec> known;
  const auto found = known.find(ranks);
  if (found != known.end()) return found->second;
  return known.emplace(ranks, load_cluster("dgx-h100", ranks, {}))
      .first->second;
}
const Framework& framework() {
  static const Framework native = default_framework("native");
  return native;
}

class Trainer {
 public:
  explicit Trainer(const TrainingCase& what)
      : what_(what),
        model_(model_of(what.model)),
        strategy_(parse_strategy(what.strategy, 0)),
        ranks_(devices(strategy_)),
        cluster_(machine_of(ranks_)) {
    cluster_.host.nvme = Bytes{std::int64_t{1} << 40};
    workload_.sequence = what.sequence;
    workload_.global_batch = what.global_batch;
    workload_.precision = what.precision;
    workload_.gradient = Precision::fp32;
    workload_.engine = "native";
    workload_.framework = framework();
    replicas_.resize(static_cast<std::size_t>(what.steps));
  }

  bool is_legal() const {
    return broken_rule(engine_, setting(), strategy_) == nullptr;
  }

  Training run() {
    if (const auto misfit = why_illegal(engine_, setting(), strategy_))
      throw Error(what_.strategy + ": " + misfit->detail);
    folder_ = std::make_unique<TemporaryDirectory>();
    ThreadWorld world(ranks_, kPatience);
    std::vector<std::thread> threads;
    threads.reserve(static_cast<std::size_t>(ranks_));
    for (int rank = 0; rank < ranks_; ++rank)
      threads.emplace_back([&, rank] { guarded(world, rank); });
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    for (const Replicas& replicas : replicas_) {
      result_.compared += replicas.compared();
      for (const std::string& name : replicas.differing())
        result_.differences.push_back("ranks hold unequal " + name);
    }
    return std::move(result_);
  }

 private:
  Setting setting() const { return {model_, cluster_, workload_}; }

  void guarded(ThreadWorld& world, int rank) {
    const auto device = make_cpu_device(what_.lanes, kMemory);
    const auto communicator = world.join(rank, *device);
    try {
      train_rank(*device, *communicator);
    } catch (const std::exception& error) {
      communicator->abort(error.what());
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }

  void train_rank(Device& device, Communicator& world) {
    const Setting given = setting();
    RankEngine rank(device, world, given, engine_, strategy_, folder_->path());
    rank.initialize(kSeed);
    if (!what_.weights.empty()) begin_with_weights(rank);
    for (int step = 0; step < what_.steps; ++step) {
      StepRunner::Numbers numbers;
      numbers.step.learning_rate = 1e-3F;
      // Adam turns rounding noise of gradients that should be 0 into whole
      // steps: a larger epsilon keeps them small.
      numbers.step.epsilon = 1e-4F;
      numbers.step.step = step + 1;
      const StepResult result = rank.step(
          [&](std::int64_t index) {
            return window(what_.windows > 0 ? index % what_.windows : index,
                          what_.sequence, model_.vocab);
          },
          step, numbers);
      const std::lock_guard lock(mutex_);
      if (world.rank() == 0) {
        result_.losses.push_back(result.loss);
        result_.gradient_norms.push_back(result.gradient_norm);
        if (result.balance) result_.balances.push_back(*result.balance);
      }
      collect(rank, step);
      hold(rank, step);
    }
    const std::lock_guard lock(mutex_);
    compare_calls(rank, world.rank());
    compare_memory(device, rank, world.rank());
  }

  void begin_with_weights(RankEngine& rank) const {
    const TensorFiles file = TensorFiles::open(what_.weights);
    for (const auto& chunk : rank.units().chunks)
      for (const Unit& unit : chunk)
        for (const FlatState& flat : unit.flats) {
          std::vector<float> values(static_cast<std::size_t>(flat.shard));
          for (const Parameter& parameter : flat.flat.parameters) {
            const TensorView& tensor =
                file.tensors().at("weight." + parameter.name);
            std::memcpy(values.data() + parameter.offset, tensor.bytes.data(),
                        tensor.bytes.size());
          }
          rank.states().write_states(flat, StateKind::master, values);
        }
    rank.settle_weights();
  }

  /// Gradients of the first step; weights and moments of the last.
  void collect(RankEngine& rank, int step) {
    const bool is_last = step + 1 == what_.steps;
    for (const auto& chunk : rank.units().chunks)
      for (const Unit& unit : chunk)
        for (const FlatState& flat : unit.flats) {
          const StageStates::Shard shard = rank.states().shard_of(flat);
          if (step == 0)
            put(flat, shard.rank,
                {reinterpret_cast<const float*>(shard.gradients.data),
                 static_cast<std::size_t>(flat.shard)},
                &WholeTensor::gradients);
          if (!is_last) continue;
          const auto states = [&](StateKind kind,
                                  std::vector<float> WholeTensor::*member) {
            put(flat, shard.rank, rank.states().read_states(flat, kind),
                member);
          };
          states(StateKind::master, &WholeTensor::weights);
          states(StateKind::first_moment, &WholeTensor::first_moment);
          states(StateKind::second_moment, &WholeTensor::second_moment);
        }
  }

  /// Weights of this rank after a step, to be compared with those of others.
  void hold(RankEngine& rank, int step) {
    for (const auto& chunk : rank.units().chunks)
      for (const Unit& unit : chunk)
        for (const FlatState& flat : unit.flats) {
          const StageStates::Shard shard = rank.states().shard_of(flat);
          Replicas& replicas = replicas_[static_cast<std::size_t>(step)];
          if (shard.weights.data != nullptr) {
            replicas.hold(flat, shard.weights, shard.rank, strategy_.zero == 3);
            continue;
          }
          // Weights that are away are as their masters.
          std::vector<float> masters =
              rank.states().read_states(flat, StateKind::master);
          replicas.hold(flat,
                        {reinterpret_cast<std::byte*>(masters.data()),
                         flat.shard, Precision::fp32},
                        shard.rank, true);
        }
  }

  /// fp32 `shard` of a flat buffer, to where its elements are in the model.
  void put(const FlatState& flat, int shard_rank, std::span<const float> values,
           std::vector<float> WholeTensor::*member) {
    const std::int64_t begin = shard_rank * flat.shard;
    for (const Parameter& parameter : flat.flat.parameters) {
      std::vector<float>& whole = result_.tensors[parameter.name].*member;
      const std::int64_t rows = unpadded_rows(model_, parameter);
      whole.resize(static_cast<std::size_t>(rows * parameter.columns));
      for (std::int64_t i = 0; i < parameter.size(); ++i) {
        const std::int64_t at = parameter.offset + i - begin;
        if (at < 0 || at >= flat.shard) continue;
        const std::int64_t row =
            parameter.first_row + i / parameter.local_columns;
        const std::int64_t column =
            parameter.first_column + i % parameter.local_columns;
        if (row < rows)
          whole[static_cast<std::size_t>(row * parameter.columns + column)] =
              values[static_cast<std::size_t>(at)];
      }
    }
  }
  void compare_calls(const RankEngine& rank, int number) {
    const StepGraph graph = build_step(setting(), engine_, strategy_,
                                       micro_batches(strategy_, workload_));
    Tally planned = planned_calls(graph, rank.stage(), what_.steps);
    Tally ran = rank.context().tally;
    for (int term = 0; term < kTimeTerms; ++term)
      for (int op = 0; op < kCollectiveOps; ++op) {
        const auto at = static_cast<TimeTerm>(term);
        const auto how = static_cast<CollectiveOp>(op);
        const Tally::Count &plan = planned.at(at, how), &run = ran.at(at, how);
        if (plan != run)
          result_.differences.push_back(fmt::format(
              "rank {}: {} operation {}: planned {} calls of {} bytes, ran {} "
              "of {}",
              number, to_text(at), op, plan.calls, plan.bytes.value, run.calls,
              run.bytes.value));
      }
  }

  void compare_memory(const Device& device, const RankEngine& rank,
                      int number) {
    const MemoryBreakdown planned = stage_memory(
        setting(), engine_, strategy_)[static_cast<std::size_t>(rank.stage())];
    compare_bytes(number, "host", planned.host, device.use(Tier::host).peak);
    const MemoryUse use = device.use(Tier::device);
    for (int i = 0; i < kTerms; ++i) {
      const auto term = static_cast<Term>(i);
      const Bytes ran = use.at_peak[static_cast<std::size_t>(i)];
      if (term != Term::overhead)
        compare_bytes(number, to_text(term), planned[term], ran);
    }
  }

  void compare_bytes(int number, std::string_view what, Bytes planned,
                     Bytes ran) {
    if (planned != ran)
      result_.differences.push_back(
          fmt::format("rank {}: {} planned {} bytes at the peak, ran {}",
                      number, what, planned.value, ran.value));
  }

  const TrainingCase& what_;
  ModelSpec model_;
  Strategy strategy_;
  int ranks_;
  ClusterSpec cluster_;
  Workload workload_;
  const Engine& engine_ = find_engine("native");
  std::unique_ptr<TemporaryDirectory> folder_;  // of a run
  std::mutex mutex_;
  Training result_;
  std::exception_ptr failure_;
  std::vector<Replicas> replicas_;  // by step
};

}  // namespace

bool is_legal(const TrainingCase& what, int most) {
  return devices(parse_strategy(what.strategy, 0)) <= most &&
         Trainer(what).is_legal();
}

Training train(const TrainingCase& what) { return Trainer(what).run(); }

}  // namespace ztplan
