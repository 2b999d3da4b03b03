#include "search/interval.h"

#include <algorithm>
#include <cmath>

#include "spec/measured.h"
#include "time/price.h"

namespace ztplan {
namespace {

/// What a rate of a data sheet may be off by, as a share of it.
double slack_of(Trust trust) {
  constexpr double kRead = 0.02, kQuoted = 0.05, kAssumed = 0.2;
  if (trust == Trust::assumed) return kAssumed;
  if (trust == Trust::quoted) return kQuoted;
  return trust == Trust::given ? 0 : kRead;
}

double rate_factor(Trust trust, End end) {
  const double factor = 1 + slack_of(trust);
  return end == End::fast ? factor : 1 / factor;
}

void move_levels(ClusterSpec& cluster, Input input, End end) {
  for (Level& level : cluster.levels) {
    const bool is_network = level.kind == LinkKind::network;
    if (is_network != (input == Input::network)) continue;
    level.bandwidth = level.bandwidth * rate_factor(level.trust, end);
  }
}

void move_products(DeviceSpec& device, End end) {
  const double factor = rate_factor(device.trust, end);
  for (FlopsPerSecond DeviceSpec::*rate :
       {&DeviceSpec::fp32, &DeviceSpec::tf32, &DeviceSpec::fp16,
        &DeviceSpec::bf16, &DeviceSpec::fp8, &DeviceSpec::fp4})
    device.*rate = device.*rate * factor;
}

void move_host(HostSpec& host, End end) {
  const double factor = rate_factor(host.trust, end);
  for (BytesPerSecond HostSpec::*rate :
       {&HostSpec::memory_bandwidth, &HostSpec::device_link,
        &HostSpec::nvme_read, &HostSpec::nvme_write})
    host.*rate = host.*rate * factor;
}

ClusterSpec moved(ClusterSpec cluster, Input input, End end) {
  DeviceSpec& device = cluster.device;
  if (input == Input::products) move_products(device, end);
  if (input == Input::passes)
    device.memory_bandwidth =
        device.memory_bandwidth * rate_factor(device.trust, end);
  if (input == Input::links || input == Input::network)
    move_levels(cluster, input, end);
  if (input == Input::host) move_host(cluster.host, end);
  return cluster;
}

/// Whether a step of `strategy` asks for it at all.
bool is_used(Input input, const ClusterSpec& cluster, const Strategy& s) {
  if (input == Input::host) return s.offload != Offload{};
  if (input == Input::overlap) return s.zero == 3;
  if (input == Input::links) return devices(s) > 1;
  if (input == Input::network) return devices(s) > cluster.devices_per_node;
  return true;
}

double square(double value) { return value * value; }

// A step over what its priced works take: data loading, stragglers, clocks, and
// kernels that no work stands for add time; what a framework fuses beyond its
// descriptor saves some. Four of five of the published runs lie inside
// (training_runs.csv, 829 times, with the bands of their inputs): a fit over
// all.
constexpr Swing kRest{-0.140, 0.300};  // .87 and 1.35

// The same over probes of the machine itself: what whole steps add to them. A
// fit over the runs of bench/predicted_vs_measured (docs/calibration.md).
constexpr Swing kMeasuredRest{-0.01, 0.09};

// What the errors of two layouts of one model on one cluster differ by in four
// of five of 46 pairs of published runs (NeMo, torchtitan, InternEvo,
// Korthikanti 2022). Sources of single early iterations scatter more: of all
// 563 pairs, half lie within .13.
constexpr double kLayoutSpread = 0.1;

/// What a meter shows over what is counted, less 1. A fit over the peaks of
/// training_runs.csv: allocated 32, reserved 61, nvidia-smi 44, no meter named
/// 142. A meter that nobody names may be any of them: its band holds theirs.
struct MeterBand {
  double less, more;
};
MeterBand band_of(std::optional<Meter> meter) {
  if (!meter) return {0.1, 0.65};
  switch (*meter) {
    case Meter::allocated:
      return {0.09, 0.23};
    case Meter::reserved:
      return {0.1, 0.23};
    case Meter::driver:
      break;
  }
  return {0.02, 0.16};
}

Bytes scaled(Bytes bytes, double factor) {
  return Bytes{std::llround(static_cast<double>(bytes.value) * factor)};
}

}  // namespace

Swings step_swings(const Question& question, const Plan& plan) {
  const Setting setting{question.model, question.cluster, question.workload};
  Swings swings{};
  // Runs of the machine tell what all of its inputs err by together.
  if (const auto& measured = question.calibration.measured;
      measured && measured->runs > 0)
    return swings;
  for (int i = 0; i < kInputs; ++i) {
    const Input input = static_cast<Input>(i);
    if (!is_used(input, question.cluster, plan.strategy)) continue;
    const auto swing = [&](End end) {
      const ClusterSpec cluster = moved(question.cluster, input, end);
      const Calibration calibration = moved(question.calibration, input, end);
      const StepTime time = estimate_step(setting, *plan.engine, plan.strategy,
                                          {cluster, calibration});
      return std::log(time.total() / plan.time.total());
    };
    swings.at(static_cast<std::size_t>(i)) = {std::min(0.0, swing(End::fast)),
                                              std::max(0.0, swing(End::slow))};
  }
  return swings;
}

Swing rest_of(const Calibration& calibration) {
  if (!calibration.measured) return kRest;
  if (calibration.measured->runs == 0) return kMeasuredRest;
  const double spread = std::log1p(calibration.measured->run_spread);
  return {-spread, spread};
}

StepInterval step_interval(Seconds likely, const Swings& swings,
                           const Swing& rest) {
  double fast = square(rest.fast), slow = square(rest.slow);
  for (const Swing& swing : swings) {
    fast += square(swing.fast);
    slow += square(swing.slow);
  }
  return {likely * std::exp(-std::sqrt(fast)),
          likely * std::exp(std::sqrt(slow))};
}

PeakInterval peak_interval(Bytes shown, std::optional<Meter> meter) {
  const MeterBand band = band_of(meter);
  return {scaled(shown, 1 - band.less), scaled(shown, 1 + band.more)};
}

StepRatio step_ratio(const SwungStep& step, const SwungStep& other) {
  double lower = square(kLayoutSpread), upper = square(kLayoutSpread);
  for (std::size_t i = 0; i < step.swings.size(); ++i) {
    const double fast = other.swings.at(i).fast - step.swings.at(i).fast;
    const double slow = other.swings.at(i).slow - step.swings.at(i).slow;
    lower += square(std::min({0.0, fast, slow}));
    upper += square(std::max({0.0, fast, slow}));
  }
  const double likely = other.likely / step.likely;
  return {likely, likely * std::exp(-std::sqrt(lower)),
          likely * std::exp(std::sqrt(upper))};
}

bool is_alike(const StepRatio& ratio) {
  return ratio.low < 1 && 1 < ratio.high;
}

}  // namespace ztplan
