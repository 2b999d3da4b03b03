#include "spec/measured.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "support/messages.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

Sample sample(std::vector<double> sizes, double median) {
  return {std::move(sizes), {0.9 * median}, {median}, {1.1 * median}, 10};
}

/// 2 us and 1 ns a byte, as a power law between samples that lie on it.
ProbeCurve bytes_curve() {
  ProbeCurve curve;
  curve.coefficients = {2e-6, 1e-9};
  curve.spread = 0.1;
  for (const double bytes : {1e3, 1e5, 1e7})
    curve.samples.push_back(sample({1, bytes}, 2e-6 + 1e-9 * bytes));
  return curve;
}

MeasuredMachine machine() {
  MeasuredMachine machine;
  machine.device = "cpu-generic-2core";
  machine.processor = "a processor";
  machine.cores = 2;
  machine.date = "2026-12-04T00:00:00Z";
  machine.version = "0.1.0";
  machine.complete = true;
  machine.sharing = {1, 1.25, 2};
  machine.curves["copy/fp32"] = bytes_curve();
  machine.step_factors = {1.5, 1.75};
  machine.runs = 3;
  machine.run_spread = 0.25;
  return machine;
}

}  // namespace

TEST_CASE("a measured time is its sample's, and a power law between two") {
  const ProbeCurve curve = bytes_curve();
  const auto at = [&](double bytes) {
    return seconds_of(curve, std::vector<double>{1, bytes}).value;
  };
  for (const Sample& each : curve.samples)
    CHECK(at(each.sizes[1]) == doctest::Approx(each.median.value));
  CHECK(at(1e4) == doctest::Approx(std::sqrt(at(1e3) * at(1e5))));
  CHECK(at(1e4) > at(1e3));
  CHECK(at(1e6) < at(1e7));
}

TEST_CASE("beyond its samples a curve goes on as its fit, without a step") {
  ProbeCurve curve = bytes_curve();
  for (Sample& each : curve.samples) each.median = each.median * 1.2;
  const auto at = [&](double bytes) {
    return seconds_of(curve, std::vector<double>{1, bytes}).value;
  };
  CHECK(at(1) == doctest::Approx(1.2 * (2e-6 + 1e-9)));
  CHECK(at(1e9) == doctest::Approx(1.2 * (2e-6 + 1)));
}

TEST_CASE("several sizes are the fit, corrected by samples nearby") {
  ProbeCurve curve;
  curve.coefficients = {1e-6, 0, 3e-9};
  const auto at = [&](double a, double b, double c) {
    return seconds_of(curve, std::vector<double>{a, b, c}).value;
  };
  curve.samples = {sample({1, 5, 7}, 1e-6 + 3e-9 * 7)};
  CHECK(at(2, 100, 10) == doctest::Approx(2e-6 + 3e-8));
  curve.samples.push_back(sample({1, 50, 1000}, 2 * 4e-6));
  for (const Sample& each : curve.samples)
    CHECK(at(each.sizes[0], each.sizes[1], each.sizes[2]) ==
          doctest::Approx(each.median.value));
  CHECK(at(1, 45, 900) > 1.9 * (1e-6 + 3e-9 * 900));
  CHECK(at(1, 45, 900) < 2 * (1e-6 + 3e-9 * 900));
}

TEST_CASE("ranks share cores as measured, and past that in proportion") {
  const MeasuredMachine two = machine();
  CHECK(sharing(two, 1) == 1);
  CHECK(sharing(two, 2) == 1.25);
  CHECK(sharing(two, 6) == doctest::Approx(4));
  CHECK(sharing(MeasuredMachine{}, 6) == 1);
}

TEST_CASE("a calibration reads back as it was written") {
  const TemporaryDirectory folder;
  const std::string path = folder.write("m.json", to_json(machine()));
  const MeasuredMachine back = read_measured(path);
  CHECK(to_json(back) == to_json(machine()));
  CHECK(back.curves.at("copy/fp32").samples ==
        machine().curves.at("copy/fp32").samples);
}

TEST_CASE("what is no calibration is refused with its place") {
  const TemporaryDirectory folder;
  const std::string good = to_json(machine());
  struct Row {
    std::string from, to, expected;
  };
  const Row rows[] = {
      {good, "[]", "not a calibration"},
      {good, "{}", "not a calibration"},
      {good, good.substr(0, good.size() / 2), "m.json"},
      {"ztplan.calibration/1", "ztplan.calibration/2", "expected"},
      {"ztplan.calibration/1", "ztplan.plan/1", "expected"},
      {"\"cores\": 2", "\"cores\": 0", "cores"},
      {"\"cores\": 2", "\"cors\": 2", "cors"},
      {"\"complete\": true", "\"complete\": 1", "complete"},
      {"1.25", "-1.25", "sharing[1]"},
      {"\"spread\": 0.1", "\"spread\": -0.1", "spread"},
      {"1.75", "0.0", "step_factors[1]"},
      {"\"runs\": 3", "\"runs\": 3.5", "runs"},
      {"\"repeats\": 10", "\"repeats\": 0", "repeats"},
      {"\"coefficients\": [\n        2e-06,\n        1e-09\n      ]",
       "\"coefficients\": []", "coefficients"},
  };
  for (const Row& row : rows) {
    std::string text = good;
    const std::size_t at = text.find(row.from);
    CAPTURE(row.from);
    REQUIRE(at != std::string::npos);
    text.replace(at, row.from.size(), row.to);
    const std::string path = folder.write("m.json", text);
    CHECK(refusal([&] { read_measured(path); }).find(row.expected) !=
          std::string::npos);
  }
}
