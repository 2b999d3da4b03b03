// How fast the executor runs on this processor: weak scaling over ranks, and
// collectives of threads beside a copy in memory; or, for bench/against_torch,
// one rank and where its time goes.
//
//   ztplan_executor_bench
//   ztplan_executor_bench rank MODEL SEQUENCE BATCH STEPS   one line of JSON

#include <fmt/format.h>
#include <time.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "exec/cpu_device.h"
#include "exec/rank_engine.h"
#include "exec/thread_communicator.h"
#include "spec/catalog.h"
#include "strategy/engine.h"

namespace {

using namespace ztplan;

constexpr std::chrono::minutes kPatience{10};
constexpr Bytes kMemory{std::int64_t{16} << 30};

/// Seconds that the calling thread has computed: other programs do not count.
double computed() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

template <class... Kinds>
bool is_one_of(const Kernel& kernel) {
  return (std::holds_alternative<Kinds>(kernel) || ...);
}

std::string kind_of(const Kernel& kernel) {
  using namespace kernels;  // NOLINT: a list of them
  if (is_one_of<Product>(kernel)) return "products";
  if (is_one_of<AttentionForward, AttentionBackward, AttentionDelta>(kernel))
    return "attention";
  if (is_one_of<ActivationForward, ActivationBackward>(kernel))
    return "activations";
  if (is_one_of<NormForward, NormBackward>(kernel)) return "norms";
  if (is_one_of<AdamW, SquareSum>(kernel)) return "optimizer";
  if (is_one_of<LossMaximum, LossSum, LossTotal, LossGradient>(kernel))
    return "loss";
  return "sums, copies, fills";
}

/// A device that keeps the time of each kind of kernel.
class TimedDevice final : public Device {
 public:
  std::byte* allocate(Tier tier, Term term, Bytes bytes) override {
    return device_->allocate(tier, term, bytes);
  }
  void release(std::byte* data) override { device_->release(data); }
  MemoryUse use(Tier tier) const override { return device_->use(tier); }
  void launch(Lane lane, const Kernel& kernel) override {
    const double start = computed();
    device_->launch(lane, kernel);
    spent[kind_of(kernel)] += computed() - start;
  }
  void copy(Lane lane, std::byte* to, const std::byte* from,
            Bytes bytes) override {
    device_->copy(lane, to, from, bytes);
  }
  void enqueue(Lane lane, std::function<void()> work) override {
    device_->enqueue(lane, std::move(work));
  }
  EventId record(Lane lane) override { return device_->record(lane); }
  void wait(Lane lane, EventId event) override { device_->wait(lane, event); }
  void synchronize() override { device_->synchronize(); }

  std::map<std::string, double> spent;

 private:
  std::unique_ptr<Device> device_ =
      make_cpu_device(CpuLanes::immediate, kMemory);
};

struct Run {
  std::string model;
  int sequence = 0, batch = 0, steps = 0;  // batch: sequences of a rank
};

struct Spent {
  double seconds = 0, computed = 0;  // of a step
  std::map<std::string, double> kernels;
};

/// Any tokens: no kernel's time depends on them.
std::vector<std::int32_t> window(std::int64_t index, int length, int vocab) {
  std::vector<std::int32_t> tokens;
  auto state = static_cast<std::uint64_t>(index) + 1;
  for (int i = 0; i < length; ++i) {
    // Knuth's MMIX generator.
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    tokens.push_back(static_cast<std::int32_t>((state >> 33U) %
                                               static_cast<unsigned>(vocab)));
  }
  return tokens;
}

/// Steps of one rank after a first that is not counted.
Spent train_rank(const Run& run, Device& device, Communicator& world,
                 const Setting& setting, const Strategy& strategy) {
  RankEngine rank(device, world, setting, find_engine("native"), strategy, {});
  rank.initialize(1);
  const auto step = [&](int number) {
    StepRunner::Numbers numbers;
    numbers.step.step = number + 1;
    rank.step(
        [&](std::int64_t index) {
          return window(index, run.sequence + 1, setting.model.vocab);
        },
        number, numbers);
  };
  step(0);
  const double start = seconds(), from = computed();
  for (int i = 1; i <= run.steps; ++i) step(i);
  return {(seconds() - start) / run.steps, (computed() - from) / run.steps, {}};
}

/// Data parallel over `ranks`: what rank 0 spent.
Spent train(const Run& run, int ranks) {
  const ModelSpec model = load_model(run.model);
  const ClusterSpec cluster = load_cluster("dgx-h100", ranks, {});
  Workload w;
  w.sequence = run.sequence;
  w.global_batch = run.batch * ranks;
  w.precision = w.gradient = Precision::fp32;
  w.engine = "native";
  w.framework = default_framework("native");
  const Strategy strategy =
      parse_strategy(fmt::format("dp={},micro={}", ranks, run.batch), ranks);
  ThreadWorld world(ranks, kPatience);
  Spent spent;
  run_ranks(world, [&](int number) {
    TimedDevice device;
    const auto communicator = world.join(number, device);
    const Spent own =
        train_rank(run, device, *communicator, {model, cluster, w}, strategy);
    if (number > 0) return;
    spent = own;
    spent.kernels = device.spent;
    for (auto& [kind, time] : spent.kernels) time /= run.steps + 1;
  });
  return spent;
}

double tokens(const Run& run) {
  return static_cast<double>(run.sequence) * run.batch;
}

void print_rank(const Run& run) {
  const Spent spent = train(run, 1);
  fmt::print(R"({{"tokens_per_second":{:.1f},"computed_seconds":{:.6f})",
             tokens(run) / spent.computed, spent.computed);
  for (const auto& [kind, time] : spent.kernels)
    fmt::print(R"(,"{}":{:.6f})", kind, time);
  fmt::print("}}\n");
}

void print_scaling(const Run& run) {
  fmt::print("{:>6} {:>12} {:>24}\n", "ranks", "tokens/s",
             "tokens/s of a busy rank");
  for (const int ranks : {1, 2, 4}) {
    const Spent spent = train(run, ranks);
    fmt::print("{:>6} {:>12.0f} {:>24.0f}\n", ranks,
               ranks * tokens(run) / spent.seconds,
               tokens(run) / spent.computed);
  }
}

/// Bytes read and written per second, the best of several calls that are
/// `bytes` each.
double best_rate(double bytes, const std::function<void()>& call) {
  constexpr int kCalls = 10;
  double best = 0;
  for (int i = 0; i < kCalls; ++i) {
    const double start = seconds();
    call();
    best = std::max(best, bytes / (seconds() - start));
  }
  return best;
}

constexpr std::int64_t kElements = std::int64_t{16} << 20;  // 64 MiB
constexpr double kBufferBytes = 4.0 * kElements;

double copy_rate() {
  std::vector<float> from(kElements, 1.0F), to(kElements);
  return best_rate(2 * kBufferBytes, [&] {
    std::memcpy(to.data(), from.data(), static_cast<std::size_t>(kBufferBytes));
  });
}

using Call = std::function<void(Communicator&, const Array&)>;

/// All ranks together read and write `bytes`.
double collective_rate(int ranks, double bytes, const Call& call) {
  ThreadWorld world(ranks, kPatience);
  double rate = 0;
  run_ranks(world, [&](int number) {
    const auto device = make_cpu_device(CpuLanes::immediate, kMemory);
    const auto communicator = world.join(number, *device);
    std::vector<float> data(kElements, 1.0F);
    const Array array{reinterpret_cast<std::byte*>(data.data()), kElements,
                      Precision::fp32};
    const double own = best_rate(bytes, [&] { call(*communicator, array); });
    if (number == 0) rate = own;
  });
  return rate;
}

void print_collectives() {
  const double copied = copy_rate();
  fmt::print("\ncopy {:.1f} GB/s read and written, buffers of 64 MiB\n",
             1e-9 * copied);
  const auto print = [&](const char* name, int ranks, double bytes,
                         const Call& call) {
    const double rate = collective_rate(ranks, bytes, call);
    fmt::print("{} {} ranks {:.1f} GB/s, {:.0f} % of a copy\n", name, ranks,
               1e-9 * rate, 100 * rate / copied);
  };
  for (const int ranks : {2, 4}) {
    // Every rank's buffer is read, and written with the sum.
    print("all-reduce", ranks, 2 * ranks * kBufferBytes,
          [](Communicator& world, const Array& data) {
            world.all_reduce(Lane::data, data, Reduction::sum);
          });
    // Every rank writes the shards of the others.
    print("all-gather", ranks, 2 * (ranks - 1) * kBufferBytes,
          [](Communicator& world, const Array& data) {
            const std::int64_t shard = data.size / world.size();
            world.all_gather(Lane::data,
                             slice(data, world.rank() * shard, shard), data);
          });
  }
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> given(words + 1, words + count);
  if (given.size() == 5 && given[0] == "rank") {
    print_rank({given[1], std::stoi(given[2]), std::stoi(given[3]),
                std::stoi(given[4])});
    return 0;
  }
  print_scaling(
      {"gpt:layers=4,hidden=256,heads=4,vocab=256,seq=256", 256, 4, 3});
  print_collectives();
}
