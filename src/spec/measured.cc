#include "spec/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_writer.h"

namespace ztplan {
namespace {

constexpr std::string_view kSchema = "ztplan.calibration/1";
constexpr int kMostCores = 4096, kMostRuns = 1'000'000;

Seconds fitted(const ProbeCurve& curve, std::span<const double> sizes) {
  require(sizes.size() == curve.coefficients.size(),
          "a curve is asked for the sizes it has");
  double sum = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    sum += curve.coefficients[i] * sizes[i];
  return {sum};
}

/// The fit, moved to go through `sample`.
Seconds beyond(const ProbeCurve& curve, const Sample& sample,
               std::span<const double> sizes) {
  const Seconds there = fitted(curve, sample.sizes);
  if (there.value <= 0) return sample.median;
  return sample.median * (fitted(curve, sizes) / there);
}

/// A power law between two samples.
Seconds between(const Sample& left, const Sample& right, double size) {
  const double share =
      std::log(size / left.sizes[1]) / std::log(right.sizes[1] / left.sizes[1]);
  return {left.median.value * std::pow(right.median / left.median, share)};
}

/// What samples near `sizes` took over the fit, the nearer the more: Shepard's
/// weights (ACM 1968, doi:10.1145/800186.810616) over ratios of sizes. Far from
/// all of them it is their mean, near 1.
double nearby_ratio(const ProbeCurve& curve, std::span<const double> sizes) {
  constexpr double kNearest = 1e-6;  // distance below which a sample is there
  double sum = 0, weights = 0;
  for (const Sample& sample : curve.samples) {
    double squares = kNearest * kNearest;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const double ratio = std::log(std::max(sizes[i], 1e-300) /
                                    std::max(sample.sizes[i], 1e-300));
      squares += ratio * ratio;
    }
    const double weight = 1 / (squares * squares);
    sum += weight * std::log(sample.median / fitted(curve, sample.sizes));
    weights += weight;
  }
  return std::exp(sum / weights);
}

bool has_one_size(const ProbeCurve& curve) {
  constexpr std::size_t kStartAndSize = 2;
  return curve.coefficients.size() == kStartAndSize && !curve.samples.empty();
}

double positive(const JsonView& view) {
  const double number = view.number();
  if (number <= 0) view.fail("expected a number above 0");
  return number;
}

double at_least_0(const JsonView& view) {
  const double number = view.number();
  if (number < 0) view.fail("expected a number from 0 on");
  return number;
}

std::vector<double> positive_numbers(const JsonView& view) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i < view.size(); ++i)
    numbers.push_back(positive(view[i]));
  return numbers;
}

std::vector<double> numbers_of(const JsonView& view, std::size_t count) {
  if (view.size() != count)
    view.fail(fmt::format("expected {} numbers", count));
  std::vector<double> numbers;
  for (std::size_t i = 0; i < count; ++i)
    numbers.push_back(at_least_0(view[i]));
  return numbers;
}

Sample read_sample(const JsonView& view, std::size_t sizes) {
  view.allow_only({"sizes", "low", "median", "high", "repeats"});
  constexpr int kMostRepeats = 1'000'000;
  Sample sample;
  sample.sizes = numbers_of(view.at("sizes"), sizes);
  sample.low = {positive(view.at("low"))};
  sample.median = {positive(view.at("median"))};
  sample.high = {positive(view.at("high"))};
  sample.repeats = view.at("repeats").small_integer(1, kMostRepeats);
  if (sample.low > sample.median || sample.median > sample.high)
    view.fail("expected low <= median <= high");
  return sample;
}

ProbeCurve read_curve(const JsonView& view) {
  view.allow_only({"coefficients", "spread", "samples"});
  ProbeCurve curve;
  const JsonView coefficients = view.at("coefficients");
  curve.coefficients = numbers_of(coefficients, coefficients.size());
  if (curve.coefficients.empty()) coefficients.fail("expected some numbers");
  curve.spread = at_least_0(view.at("spread"));
  const JsonView samples = view.at("samples");
  for (std::size_t i = 0; i < samples.size(); ++i)
    curve.samples.push_back(read_sample(samples[i], curve.coefficients.size()));
  if (curve.samples.empty()) samples.fail("expected some samples");
  for (std::size_t i = 1; i < curve.samples.size(); ++i)
    if (curve.samples[i - 1].sizes > curve.samples[i].sizes)
      samples[i].fail("expected samples in the order of their sizes");
  if (std::ranges::all_of(curve.coefficients,
                          [](double each) { return each == 0; }))
    coefficients.fail("expected one above 0");
  return curve;
}

void check_schema(const JsonView& file) {
  if (!file.is_object() || !file.has("schema"))
    file.fail("not a calibration of ztplan", "ztplan calibrate writes one");
  const std::string schema = file.at("schema").string();
  if (schema == kSchema) return;
  const bool ours = schema.starts_with("ztplan.calibration/");
  file.at("schema").fail(
      fmt::format("expected \"{}\", not \"{}\"", kSchema, schema),
      ours ? "measure again, or take the ztplan that wrote it"
           : "ztplan calibrate writes one");
}

void write_numbers(JsonWriter& json, const char* key,
                   const std::vector<double>& numbers) {
  json.key(key).begin_array();
  for (const double each : numbers) json.value(each);
  json.end_array();
}

void write_sample(JsonWriter& json, const Sample& sample) {
  json.begin_object();
  write_numbers(json, "sizes", sample.sizes);
  json.field("low", sample.low)
      .field("median", sample.median)
      .field("high", sample.high)
      .field("repeats", sample.repeats)
      .end_object();
}

void write_curve(JsonWriter& json, const ProbeCurve& curve) {
  json.begin_object();
  write_numbers(json, "coefficients", curve.coefficients);
  json.field("spread", curve.spread).key("samples").begin_array();
  for (const Sample& sample : curve.samples) write_sample(json, sample);
  json.end_array().end_object();
}

}  // namespace

Seconds seconds_of(const ProbeCurve& curve, std::span<const double> sizes) {
  if (!has_one_size(curve))
    return fitted(curve, sizes) * nearby_ratio(curve, sizes);
  const double size = sizes[1];
  const auto& samples = curve.samples;
  if (size <= samples.front().sizes[1])
    return beyond(curve, samples.front(), sizes);
  if (size >= samples.back().sizes[1])
    return beyond(curve, samples.back(), sizes);
  const auto right = std::ranges::lower_bound(
      samples, size, {}, [](const Sample& sample) { return sample.sizes[1]; });
  return between(*(right - 1), *right, size);
}

double sharing(const MeasuredMachine& machine, int ranks) {
  const auto& measured = machine.sharing;
  if (measured.empty() || ranks < 1) return 1;
  const auto index = static_cast<std::size_t>(ranks) - 1;
  if (index < measured.size()) return measured[index];
  return measured.back() * ranks / static_cast<double>(measured.size());
}

double step_factor(const MeasuredMachine& machine, int ranks) {
  const auto& factors = machine.step_factors;
  if (factors.empty() || ranks < 1) return 1;
  return factors[std::min(static_cast<std::size_t>(ranks), factors.size()) - 1];
}

MeasuredMachine read_measured(const std::string& path) {
  return parse_measured(JsonView::load(path));
}

MeasuredMachine parse_measured(const JsonView& file) {
  check_schema(file);
  file.allow_only({"schema", "device", "processor", "cores", "date", "version",
                   "complete", "sharing", "curves", "step_factors", "runs",
                   "run_spread"});
  MeasuredMachine machine;
  machine.device = file.at("device").string();
  machine.processor = file.at("processor").string();
  machine.cores = file.at("cores").small_integer(1, kMostCores);
  machine.date = file.at("date").string();
  machine.version = file.at("version").string();
  machine.complete = file.at("complete").boolean();
  machine.sharing = positive_numbers(file.at("sharing"));
  machine.step_factors = positive_numbers(file.at("step_factors"));
  machine.runs = file.at("runs").small_integer(0, kMostRuns);
  machine.run_spread = at_least_0(file.at("run_spread"));
  const JsonView curves = file.at("curves");
  for (const std::string& probe : curves.keys())
    machine.curves[probe] = read_curve(curves.at(probe));
  return machine;
}

std::string to_json(const MeasuredMachine& machine) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object()
      .field("schema", kSchema)
      .field("device", machine.device)
      .field("processor", machine.processor)
      .field("cores", machine.cores)
      .field("date", machine.date)
      .field("version", machine.version)
      .field("complete", machine.complete);
  write_numbers(json, "sharing", machine.sharing);
  write_numbers(json, "step_factors", machine.step_factors);
  json.field("runs", machine.runs).field("run_spread", machine.run_spread);
  json.key("curves").begin_object();
  for (const auto& [probe, curve] : machine.curves) {
    json.key(probe);
    write_curve(json, curve);
  }
  json.end_object().end_object();
  return json.take();
}

}  // namespace ztplan
