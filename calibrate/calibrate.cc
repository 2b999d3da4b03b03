#include "calibrate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "calibrate/fit.h"
#include "calibrate/rehearsal.h"
#include "calibrate/trials.h"
#include "exec/cpu_device.h"
#include "exec/drive_file.h"
#include "exec/thread_communicator.h"
#include "step/demand.h"

namespace ztplan {
namespace {

constexpr std::chrono::minutes kPatience{10};
constexpr Bytes kMemory{std::int64_t{16} << 30};
/// Ranks at once that are measured, where a machine has fewer cores: twice as
/// many are still sensible.
constexpr int kRanksACore = 2, kMostRanks = 8;

std::unique_ptr<Device> new_device() {
  return make_cpu_device(CpuLanes::immediate, kMemory);
}

template <class Works>
Trials try_alone(const Works& work, Seconds budget) {
  const auto device = new_device();
  const Rehearsal rehearsal(*device, work);
  Trials trials = time_trials([&] { rehearsal.run(); }, budget);
  for (Seconds* each : {&trials.low, &trials.median, &trials.high})
    *each = *each / rehearsal.works();
  return trials;
}

Trials try_transfer(const Transfer& work, const std::string& folder,
                    Seconds budget) {
  const auto device = new_device();
  const auto size = static_cast<std::size_t>(work.bytes.value);
  std::byte* const here =
      device->allocate(Tier::device, Term::activations, work.bytes);
  std::byte* const host =
      device->allocate(Tier::host, Term::activations, work.bytes);
  std::fill(here, here + size, std::byte{1});
  std::fill(host, host + size, std::byte{2});
  if (work.channel == Channel::host_to_device)
    return time_trials(
        [&] { device->copy(Lane::to_device, here, host, work.bytes); }, budget);
  if (work.channel == Channel::device_to_host)
    return time_trials(
        [&] { device->copy(Lane::to_host, host, here, work.bytes); }, budget);
  DriveFile file(folder, work.bytes.value);
  file.write(0, {host, size});
  if (work.channel == Channel::nvme_write)
    return time_trials([&] { file.write(0, {host, size}); }, budget);
  return time_trials([&] { file.read(0, {host, size}); }, budget);
}

/// A pass of the optimizer, from the host's memory.
Trials try_adam(const HostAdam& work, Seconds budget) {
  constexpr std::int64_t kBytes = 24;  // of a parameter: calibrate/rehearsal.cc
  return try_alone(Stream{Bytes{kBytes * work.parameters}, PassKind::fixed,
                          Operation::optimizer, Precision::fp32},
                   budget);
}

/// One call on every rank.
void call(Communicator& world, const Collective& work, const Array& data,
          const Array& other) {
  const int size = world.size();
  const std::int64_t part = std::max<std::int64_t>(1, data.size / size);
  const Array whole = slice(data, 0, part * size);
  const Array own = slice(data, world.rank() * part, part);
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(size), part);
  switch (work.op) {
    case CollectiveOp::all_reduce:
      return world.all_reduce(Lane::compute, data, Reduction::sum);
    case CollectiveOp::all_gather:
      return world.all_gather(Lane::compute, own, whole);
    case CollectiveOp::reduce_scatter:
      return world.reduce_scatter(Lane::compute, whole, own);
    case CollectiveOp::all_to_all:
      return world.all_to_all(Lane::compute, whole, counts,
                              slice(other, 0, part * size), counts);
    case CollectiveOp::send_receive: {
      const int peer = 1 - world.rank();
      return world.exchange(Lane::compute, {{peer, data}}, {{peer, other}});
    }
  }
}

/// All ranks make the same number of calls: rank 0 decides how many before it
/// times them.
Trials try_collective(const Collective& work, Seconds budget) {
  const int ranks = ranks_of(work);
  const std::int64_t size = std::max<std::int64_t>(ranks, work.bytes.value / 4);
  ThreadWorld world(ranks, kPatience);
  std::vector<double> seconds;
  std::atomic<int> calls{1}, repeats{0};
  run_ranks(world, [&](int rank) {
    constexpr int kWarmups = 3, kLeast = 10, kMost = 50;
    constexpr double kShortest = 200e-6;
    const auto device = new_device();
    const auto here = world.join(rank, *device);
    const auto buffer = [&] {
      const Array array{
          device->allocate(Tier::device, Term::activations, Bytes{4 * size}),
          size, Precision::fp32};
      device->launch(Lane::compute, kernels::Fill{array, 1});
      return array;
    };
    const Array data = buffer(), other = buffer();
    const auto time_calls = [&](int count) {
      here->barrier(Lane::compute);
      const double start = clock_seconds();
      for (int i = 0; i < count; ++i) call(*here, work, data, other);
      return (clock_seconds() - start) / count;
    };
    const double one = time_calls(kWarmups);
    if (rank == 0) {
      calls = std::max(1, static_cast<int>(kShortest / one));
      repeats = std::clamp(static_cast<int>(budget.value / (one * calls)),
                           kLeast, kMost);
    }
    here->barrier(Lane::compute);
    const int each = calls, times = repeats;
    for (int i = 0; i < times; ++i) {
      const double took = time_calls(each);
      if (rank == 0) seconds.push_back(took);
    }
  });
  return summary_of(std::move(seconds));
}

Trials try_work(const Work& work, const CalibrationOptions& options,
                Seconds budget) {
  if (const auto* transfer = std::get_if<Transfer>(&work))
    return try_transfer(*transfer, options.folder, budget);
  if (const auto* adam = std::get_if<HostAdam>(&work))
    return try_adam(*adam, budget);
  if (const auto* collective = std::get_if<Collective>(&work))
    return try_collective(*collective, budget);
  return try_alone(work, budget);
}

/// Rounds a second of one of so many ranks that all compute: a product and a
/// pass, until the time is over for all.
double rate_together(int ranks) {
  constexpr std::int64_t kSize = 192;
  constexpr double kWindow = 0.1;  // seconds
  std::vector<double> rates(static_cast<std::size_t>(ranks));
  ThreadWorld world(ranks, kPatience);
  run_ranks(world, [&](int rank) {
    const auto device = new_device();
    const auto here = world.join(rank, *device);
    const Rehearsal product(*device,
                            Matmul{kSize, kSize, kSize, 1, Precision::fp32});
    const Rehearsal pass(*device, Stream{Bytes{kMiB}, PassKind::fixed,
                                         Operation::norm, Precision::fp32});
    here->barrier(Lane::compute);
    const double start = clock_seconds();
    double rounds = 0, now = start;
    for (; now < start + kWindow; now = clock_seconds(), ++rounds) {
      product.run();
      pass.run();
    }
    rates[static_cast<std::size_t>(rank)] = rounds / (now - start);
  });
  return std::accumulate(rates.begin(), rates.end(), 0.0) / ranks;
}

/// The median of some tries, over that of one rank.
std::vector<double> time_sharing(int most) {
  constexpr int kTries = 5;
  std::vector<double> shared;
  double alone = 0;
  for (int ranks = 1; ranks <= most; ++ranks) {
    std::vector<double> tries;
    tries.reserve(kTries);
    for (int i = 0; i < kTries; ++i) tries.push_back(rate_together(ranks));
    const double rate = summary_of(std::move(tries)).median.value;
    if (ranks == 1) alone = rate;
    shared.push_back(
        std::max(alone / rate, shared.empty() ? 1 : shared.back()));
  }
  return shared;
}

const Sample* find_sample(const MeasuredMachine& machine,
                          const Demand& demand) {
  const auto curve = machine.curves.find(demand.probe);
  if (curve == machine.curves.end()) return nullptr;
  const auto& samples = curve->second.samples;
  const auto at = std::ranges::find(samples, demand.sizes, &Sample::sizes);
  return at == samples.end() ? nullptr : &*at;
}

/// Refuses a probe of which four of five repeats differ by so much.
void check_noise(const Demand& demand, const Sample& sample) {
  constexpr double kMost = 50;
  const double ratio = sample.high / sample.low;
  if (ratio <= kMost) return;
  throw Mishap(
      fmt::format("{} is too noisy: its repeats differ by a factor of {:.0f}",
                  demand.probe, ratio),
      "stop what else runs here and measure again");
}

void check_here(const MeasuredMachine& machine) {
  if (machine.processor == processor_name() &&
      machine.cores == processor_cores())
    return;
  throw Error(fmt::format("the calibration is of {} with {} cores, this is {} "
                          "with {}",
                          machine.processor, machine.cores, processor_name(),
                          processor_cores()),
              "measure this machine into a file of its own");
}

/// Of each probe the works that the machine has samples of, in their order.
std::map<std::string, std::vector<const Work*>> known_works(
    const MeasuredMachine& machine, const std::vector<Work>& works) {
  std::map<std::string, std::vector<const Work*>> known;
  for (const Work& work : works) {
    const Demand demand = demand_of(work);
    if (find_sample(machine, demand) != nullptr)
      known[demand.probe].push_back(&work);
  }
  return known;
}

}  // namespace

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "processor";
}

int processor_cores() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int most_ranks() {
  return std::clamp(kRanksACore * processor_cores(), 2, kMostRanks);
}

MeasuredMachine calibrate(const CalibrationOptions& options,
                          const std::optional<MeasuredMachine>& before,
                          const std::atomic<bool>& stop,
                          const std::function<void(int, int)>& report) {
  MeasuredMachine machine;
  machine.device = options.device;
  machine.processor = processor_name();
  machine.cores = processor_cores();
  machine.date = options.date;
  machine.version = options.version;
  if (before) check_here(*before);
  const int all = static_cast<int>(options.works.size());
  const Seconds each = options.budget / static_cast<double>(all);
  std::map<std::string, std::vector<Sample>> samples;
  if (before)
    for (const auto& [probe, curve] : before->curves)
      samples[probe] = curve.samples;
  machine.sharing = time_sharing(most_ranks());
  int done = 0;
  for (const Work& work : options.works) {
    if (stop) break;
    const Demand demand = demand_of(work);
    if (!before || find_sample(*before, demand) == nullptr) {
      const Trials trials = try_work(work, options, each);
      const Sample sample{demand.sizes, trials.low, trials.median, trials.high,
                          trials.repeats};
      check_noise(demand, sample);
      samples[demand.probe].push_back(sample);
    }
    report(++done, all);
  }
  machine.complete = done == all;
  for (auto& [probe, measured] : samples)
    machine.curves[probe] = fit_curve(std::move(measured));
  return machine;
}

bool Drift::holds() const {
  return std::abs(std::log(now / before)) <= std::log1p(allowed);
}

std::vector<Drift> measure_drift(const MeasuredMachine& machine,
                                 const CalibrationOptions& options,
                                 const std::atomic<bool>& stop) {
  // Two calibrations of an idle machine differ by so much anyhow.
  constexpr double kLeastAllowed = 0.1;
  check_here(machine);
  std::vector<Drift> drifts;
  const auto known = known_works(machine, options.works);
  const Seconds each =
      options.budget /
      static_cast<double>(std::max<std::size_t>(1, known.size()));
  for (const auto& [probe, works] : known) {
    if (stop) break;
    const Work& work = *works[works.size() / 2];
    const Sample& sample = *find_sample(machine, demand_of(work));
    const double repeats = std::sqrt(sample.high / sample.low) - 1;
    drifts.push_back(
        {probe, sample.median, try_work(work, options, each).median,
         std::max({kLeastAllowed, repeats, machine.curves.at(probe).spread})});
  }
  return drifts;
}

}  // namespace ztplan
