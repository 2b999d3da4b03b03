#include "search/validation.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "report/render_validation.h"

using namespace ztplan;

namespace {

RunResult run(const char* source, double predicted, double measured) {
  RunResult result;
  result.id = "r";
  result.source = source;
  result.predicted_step = Seconds{predicted};
  result.measured_step = Seconds{measured};
  return result;
}

RunResult skipped(const char* source, const char* reason) {
  RunResult result;
  result.id = "s";
  result.source = source;
  result.skipped = reason;
  return result;
}

}  // namespace

TEST_CASE("errors are summed up by their middle, their tail and their bias") {
  // Sizes 0.1 0.1 0.2 0.3: the middle two are 0.1 and 0.2.
  const ErrorSummary even = summarize({-0.1, 0.1, 0.2, -0.3});
  CHECK(even.count == 4);
  CHECK(even.median_abs_error == doctest::Approx(0.15));
  CHECK(even.p90_abs_error == doctest::Approx(0.3));
  CHECK(even.bias == doctest::Approx(0));
  std::vector<double> tenths;
  for (int i = 1; i <= 10; ++i) tenths.push_back(i / 10.0);
  CHECK(summarize(tenths).p90_abs_error == doctest::Approx(0.9));
  CHECK(summarize({}).count == 0);
}

TEST_CASE("runs count by source, and why they were skipped") {
  const Validation validation =
      validate_runs({run("b", 11, 10), run("a", 8, 10), skipped("a", "x"),
                     skipped("b", "x"), skipped("b", "y")});
  REQUIRE(validation.sources.size() == 2);
  CHECK(validation.sources[0].source == "a");
  CHECK(validation.sources[0].skipped == 1);
  CHECK(validation.sources[0].time.bias == doctest::Approx(-0.2));
  CHECK(validation.time.count == 2);
  CHECK(validation.memory.count == 0);
  REQUIRE(validation.skipped.size() == 2);
  CHECK(validation.skipped[0].reason == "x");
  CHECK(validation.skipped[0].count == 2);
}

TEST_CASE("a run's errors are empty where nothing was measured") {
  RunResult result = run("a", 11, 10);
  CHECK(time_error(result).value() == doctest::Approx(0.1));
  CHECK(!memory_error(result));
  result.measured_step.reset();
  CHECK(!time_error(result));
}

TEST_CASE("a validation as CSV has a row a run and empty cells for gaps") {
  Showing showing;
  showing.format = Format::csv;
  const std::string csv = render_validation(
      validate_runs({run("a", 15, 10), skipped("a", "why")}), showing);
  CHECK(csv ==
        "id,source,predicted_step_seconds,measured_step_seconds,time_error,"
        "predicted_peak_bytes,measured_peak_bytes,memory_error,skipped,engine,"
        "strategy\nr,a,15,10,0.5,,,,,,\ns,a,,,,,,,why,,\n");
}

TEST_CASE("memory is a column where a run's could be compared") {
  Showing showing;
  const Validation times = validate_runs({run("a", 15, 10)});
  CHECK(render_validation(times, showing).find("memory") == std::string::npos);
  RunResult both = run("a", 15, 10);
  both.predicted_peak = both.measured_peak = Bytes{kGiB};
  const std::string shown = render_validation(validate_runs({both}), showing);
  CHECK(shown.find("memory") != std::string::npos);
}
