#include "search/validation.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "report/render_validation.h"
#include "search/attribution.h"
#include "search/one_factor.h"
#include "search/run_ranking.h"

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
      validate_runs({run("a", 15, 10), skipped("a", "why")}), {}, showing);
  CHECK(csv ==
        "id,source,predicted_step_seconds,measured_step_seconds,"
        "low_step_seconds,high_step_seconds,time_error,predicted_peak_bytes,"
        "measured_peak_bytes,low_peak_bytes,high_peak_bytes,memory_error,"
        "skipped,engine,strategy,fit\nr,a,15,10,,,0.5,,,,,,,,,\n"
        "s,a,,,,,,,,,,,why,,,\n");
}

TEST_CASE("memory is a column where a run's could be compared") {
  Showing showing;
  const Validation times = validate_runs({run("a", 15, 10)});
  CHECK(render_validation(times, {}, showing).find("memory") ==
        std::string::npos);
  RunResult both = run("a", 15, 10);
  both.predicted_peak = both.measured_peak = Bytes{kGiB};
  const std::string shown =
      render_validation(validate_runs({both}), {}, showing);
  CHECK(shown.find("memory") != std::string::npos);
}

TEST_CASE("intervals hold what lies between their ends, and these") {
  RunResult inside = run("a", 10, 12);
  inside.low_step = Seconds{9};
  inside.high_step = Seconds{12};
  RunResult outside = inside;
  outside.measured_step = Seconds{12.1};
  CHECK(holds_time(inside).value());
  CHECK(!holds_time(outside).value());
  CHECK(!holds_memory(inside));
  const Validation validation =
      validate_runs({inside, outside, run("a", 1, 1)});
  CHECK(validation.time_held.count == 2);
  CHECK(validation.time_held.share() == doctest::Approx(0.5));
  CHECK(validation.sources[0].memory_held.share() == 0);
}

TEST_CASE("one factor is fitted on every other run and judged on the others") {
  std::vector<RunResult> runs = {run("a", 8, 10), run("a", 8, 10),
                                 run("a", 4, 5), run("a", 9, 10),
                                 run("b", 1, 3)};
  const OneFactor fit = fit_one_factor(runs);
  REQUIRE(fit.factors.size() == 2);
  CHECK(fit.factors[0].fitted == 2);
  CHECK(fit.factors[0].factor == doctest::Approx(1.25));
  CHECK(fit.before.count == 2);  // nothing of a lone run is judged
  CHECK(fit.before.median_abs_error == doctest::Approx(0.15));
  CHECK(fit.after.median_abs_error == doctest::Approx(0.0625));
  runs[1].framework = "another";  // a pair of its own, with no other run
  CHECK(fit_one_factor(runs).factors.size() == 3);
  CHECK(fit_one_factor({}).after.count == 0);
}

TEST_CASE("layouts of one question are ranked, repeats are no layouts") {
  CHECK(kendall_tau({1, 2, 3}, {1, 2, 3}) == 1);
  CHECK(kendall_tau({1, 2, 3}, {3, 2, 1}) == -1);
  CHECK(kendall_tau({1, 2, 3}, {1, 3, 2}) == doctest::Approx(1.0 / 3));
  CHECK(kendall_tau({1, 1}, {1, 2}) == 0);
  std::vector<RunResult> runs = {run("a", 2, 3), run("a", 3, 2),
                                 run("a", 4, 6)};
  const char* layouts[] = {"tp=1", "tp=2", "tp=4"};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].question = "q";
    runs[i].strategy = layouts[i];
  }
  const std::vector<RankingResult> ranked = rank_runs(runs);
  REQUIRE(ranked.size() == 1);
  CHECK(ranked[0].runs == 3);
  CHECK(ranked[0].tau == doctest::Approx(1.0 / 3));
  CHECK(ranked[0].mean_regret == doctest::Approx(0.5));  // 3 s for 2
  // A second, slower run of the layout predicted best: the later of the two.
  runs.push_back(runs[0]);
  runs.back().measured_step = Seconds{5};
  const std::vector<RankingResult> repeated = rank_runs(runs);
  CHECK(repeated[0].runs == 4);
  CHECK(repeated[0].mean_regret == doctest::Approx(1.5));  // 5 s for 2
  for (RunResult& same : runs) same.strategy = "tp=1";
  CHECK(rank_runs(runs).empty());
}

TEST_CASE("what ran out of memory is to be predicted not to fit") {
  const auto fit = [](bool ran_out, Fit predicted) {
    RunResult result;
    result.ran_out = ran_out;
    result.fit = predicted;
    return result;
  };
  const FitResult counted = count_fits(
      {fit(true, Fit::does_not_fit), fit(true, Fit::fits),
       fit(true, Fit::tight), fit(false, Fit::does_not_fit),
       fit(false, Fit::tight), fit(false, Fit::fits), skipped("a", "x")});
  CHECK(counted.ran_out == 3);
  CHECK(counted.called == 1);
  CHECK(counted.tight == 1);
  CHECK(counted.ran == 3);
  CHECK(counted.refused == 1);
}

TEST_CASE("errors are attributed to the input that parts them most") {
  std::vector<RunResult> runs;
  for (int i = 0; i < 8; ++i) {
    RunResult one = run("a", i % 2 == 0 ? 8 : 12, 10);
    one.inputs = {{"half", i < 4 ? "first" : "second"},
                  {"tensor", i % 2 == 0 ? "8" : "16", i % 2 == 0 ? 8.0 : 16.0}};
    runs.push_back(std::move(one));
  }
  const std::vector<Bucket> buckets = attribute_errors(runs);
  REQUIRE(buckets.size() == 4);
  CHECK(buckets[0].input == "tensor");
  CHECK(buckets[0].value == "8");
  CHECK(buckets[0].time.bias == doctest::Approx(-0.2));
  CHECK(buckets[1].value == "16");
  CHECK(buckets[1].time.bias == doctest::Approx(0.2));
  CHECK(buckets[2].input == "half");
  CHECK(buckets[2].time.bias == doctest::Approx(0));
}

TEST_CASE("parts of a validation are shown when asked, in both forms") {
  RunResult one = run("a", 8, 10);
  one.inputs = {{"zero", "3", 3.0}};
  const Validation validation = validate_runs({one});
  Showing showing;
  const ValidationParts both{.one_factor = true, .attribution = true};
  const std::string plain = render_validation(validation, {}, showing);
  CHECK(plain.find("factor") == std::string::npos);
  const std::string table = render_validation(validation, both, showing);
  CHECK(table.find("one factor") != std::string::npos);
  CHECK(table.find("zero") != std::string::npos);
  showing.format = Format::json;
  const std::string json = render_validation(validation, both, showing);
  CHECK(json.find("\"one_factor\"") != std::string::npos);
  CHECK(json.find("\"attribution\"") != std::string::npos);
}
