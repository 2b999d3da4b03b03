#include "calibrate/fit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "calibrate/refine.h"
#include "calibrate/trials.h"

using namespace ztplan;

namespace {

Sample sample(std::vector<double> sizes, double seconds) {
  return {std::move(sizes), {seconds}, {seconds}, {seconds}, 10};
}

/// Times of 3 us, 2 ns and 5 ps, of sizes as products have them.
std::vector<Sample> exact_samples() {
  std::vector<Sample> samples;
  for (const double a : {1e2, 1e3, 1e5})
    for (const double b : {1e4, 1e6, 1e8})
      samples.push_back(sample({1, a, b}, 3e-6 + 2e-9 * a + 5e-12 * b));
  return samples;
}

}  // namespace

TEST_CASE("a fit finds the coefficients its samples were made with") {
  const ProbeCurve curve = fit_curve(exact_samples());
  REQUIRE(curve.coefficients.size() == 3);
  CHECK(curve.coefficients[0] == doctest::Approx(3e-6));
  CHECK(curve.coefficients[1] == doctest::Approx(2e-9));
  CHECK(curve.coefficients[2] == doctest::Approx(5e-12));
  CHECK(curve.spread < 1e-6);
}

TEST_CASE("a fit does not depend on the order of its samples") {
  std::vector<Sample> samples = exact_samples();
  const ProbeCurve first = fit_curve(samples);
  std::mt19937 dice(7);
  std::shuffle(samples.begin(), samples.end(), dice);
  const ProbeCurve second = fit_curve(samples);
  CHECK(first.coefficients == second.coefficients);
  CHECK(first.samples == second.samples);
}

TEST_CASE("no coefficient of a fit is negative") {
  // Least squares alone would have the start below 0.
  const ProbeCurve curve =
      fit_curve({sample({1, 1}, 1e-6), sample({1, 2}, 3e-6),
                 sample({1, 4}, 8e-6), sample({1, 8}, 17e-6)});
  CHECK(curve.coefficients[0] == 0);
  CHECK(curve.coefficients[1] > 1e-6);
  CHECK(curve.coefficients[1] < 2.2e-6);
}

TEST_CASE("one sample far off hardly moves a fit, and widens its spread") {
  std::vector<Sample> samples = exact_samples();
  samples[4].median = samples[4].high = samples[4].median * 10;
  const ProbeCurve curve = fit_curve(samples);
  CHECK(curve.coefficients[2] == doctest::Approx(5e-12).epsilon(0.05));
  samples[3].median = samples[3].high = samples[3].median * 10;
  samples[5].median = samples[5].high = samples[5].median * 10;
  CHECK(fit_curve(samples).spread > 1);
}

TEST_CASE("trials are told by their median and what four of five are within") {
  std::vector<double> seconds;
  for (int i = 10; i >= 0; --i) seconds.push_back(i);
  const Trials trials = summary_of(seconds);
  CHECK(trials.low.value == 1);
  CHECK(trials.median.value == 5);
  CHECK(trials.high.value == 9);
  CHECK(trials.repeats == 11);
}

TEST_CASE("something is tried ten times at least, and never in no time") {
  int calls = 0;
  const Trials trials = time_trials([&] { ++calls; }, Seconds{0});
  CHECK(trials.repeats == 10);
  CHECK(calls > 10);
  CHECK(trials.low <= trials.median);
  CHECK(trials.median <= trials.high);
}

TEST_CASE("runs teach what steps take over probes, by their ranks") {
  MeasuredMachine machine;
  machine.step_factors = {1.1};
  const std::vector<ExecutedRun> runs{{1, {1}, {1.2}},  {1, {1}, {1.2}},
                                      {1, {2}, {2.4}},  {4, {1}, {1.5}},
                                      {4, {2}, {3.02}}, {4, {1}, {1.49}}};
  const MeasuredMachine refined = refine(machine, runs);
  CHECK(step_factor(refined, 1) == doctest::Approx(1.1 * 1.2));
  CHECK(step_factor(refined, 2) == doctest::Approx(1.1 * 1.2));
  CHECK(step_factor(refined, 4) == doctest::Approx(1.1 * 1.5));
  CHECK(step_factor(refined, 9) == step_factor(refined, 4));
  CHECK(refined.runs == 6);
  CHECK(refined.run_spread == doctest::Approx(0.00667).epsilon(0.01));
}
