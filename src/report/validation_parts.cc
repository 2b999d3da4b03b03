#include "report/validation_parts.h"

#include <fmt/format.h>

#include "report/number_text.h"
#include "search/attribution.h"
#include "search/one_factor.h"
#include "search/run_ranking.h"

namespace ztplan {
namespace {

Column right(const char* title) { return {title, Align::right}; }

std::string text_of(std::int64_t count) { return fmt::format("{}", count); }

std::vector<std::string> ranking_row(const RankingResult& result) {
  return {result.source,
          text_of(result.questions),
          text_of(result.runs),
          fmt::format("{:.2f}", result.tau),
          signed_share(result.mean_regret),
          signed_share(result.worst_regret)};
}

void write_ranking(JsonWriter& json, const RankingResult& result) {
  json.begin_object().field("source", result.source);
  json.field("questions", result.questions).field("runs", result.runs);
  json.field("kendall_tau", result.tau);
  json.field("mean_regret", result.mean_regret);
  json.field("worst_regret", result.worst_regret).end_object();
}

std::vector<std::string> factor_row(const Factor& factor) {
  std::vector<std::string> row = {factor.source,
                                  factor.framework,
                                  factor.cluster,
                                  text_of(factor.fitted),
                                  fmt::format("{:.2f}", factor.factor),
                                  text_of(factor.before.count)};
  for (const ErrorSummary* summary : {&factor.before, &factor.after}) {
    const bool none = summary->count == 0;
    row.push_back(none ? "-" : share_text(summary->median_abs_error));
    row.push_back(none ? "-" : share_text(summary->p90_abs_error));
  }
  return row;
}

void write_errors(JsonWriter& json, const char* key,
                  const ErrorSummary& summary) {
  json.key(key).begin_object().field("count", summary.count);
  json.field("median_abs_error", summary.median_abs_error);
  json.field("p90_abs_error", summary.p90_abs_error);
  json.field("bias", summary.bias).end_object();
}

std::string bias_text(const ErrorSummary& summary) {
  return summary.count == 0 ? "-" : signed_share(summary.bias);
}

}  // namespace

std::string signed_share(double share) {
  constexpr double kPercent = 100;
  return fmt::format("{:+.1f}%", share * kPercent);
}

Table ranking_table(const std::vector<RunResult>& runs) {
  Table table{{{"layouts ranked"},
               right("questions"),
               right("runs"),
               right("tau"),
               right("regret"),
               right("worst")},
              {}};
  for (const RankingResult& result : rank_runs(runs))
    table.rows.push_back(ranking_row(result));
  if (table.rows.empty()) return table;
  RankingResult all = rank_all(runs);
  all.source = "all";
  table.rows.push_back(ranking_row(all));
  return table;
}

std::vector<Labelled> fit_lines(const std::vector<RunResult>& runs) {
  const FitResult fits = count_fits(runs);
  if (fits.ran_out + fits.ran == 0) return {};
  return {{"fits",
           fmt::format("{} of {} runs that ran out of memory are predicted not "
                       "to fit and {} to be tight, and {} of {} that ran not "
                       "to fit",
                       fits.called, fits.ran_out, fits.tight, fits.refused,
                       fits.ran)}};
}

void write_order(JsonWriter& json, const std::vector<RunResult>& runs) {
  json.key("ranking").begin_array();
  for (const RankingResult& result : rank_runs(runs))
    write_ranking(json, result);
  json.end_array();
  const FitResult fits = count_fits(runs);
  json.key("fits").begin_object().field("ran_out", fits.ran_out);
  json.field("ran_out_predicted", fits.called);
  json.field("ran_out_tight", fits.tight).field("ran", fits.ran);
  json.field("ran_predicted_not_to_fit", fits.refused).end_object();
}

Table factor_table(const std::vector<RunResult>& runs) {
  const OneFactor fit = fit_one_factor(runs);
  Table table{{{"one factor"},
               {"framework"},
               {"cluster"},
               right("fitted"),
               right("factor"),
               right("judged"),
               right("median"),
               right("p90"),
               right("after"),
               right("p90")},
              {}};
  for (const Factor& factor : fit.factors)
    table.rows.push_back(factor_row(factor));
  Factor all;
  all.source = "all";
  all.before = fit.before;
  all.after = fit.after;
  table.rows.push_back(factor_row(all));
  table.rows.back()[4] = "-";
  return table;
}

void write_factors(JsonWriter& json, const std::vector<RunResult>& runs) {
  const OneFactor fit = fit_one_factor(runs);
  json.key("one_factor").begin_object().key("factors").begin_array();
  for (const Factor& factor : fit.factors) {
    json.begin_object().field("source", factor.source);
    json.field("framework", factor.framework).field("cluster", factor.cluster);
    json.field("fitted", factor.fitted).field("factor", factor.factor);
    write_errors(json, "before", factor.before);
    write_errors(json, "after", factor.after);
    json.end_object();
  }
  json.end_array();
  write_errors(json, "before", fit.before);
  write_errors(json, "after", fit.after);
  json.end_object();
}

Table attribution_table(const std::vector<RunResult>& runs) {
  Table table{{{"input"},
               {"value"},
               right("time"),
               right("bias"),
               right("memory"),
               right("bias")},
              {}};
  for (const Bucket& bucket : attribute_errors(runs))
    table.rows.push_back({bucket.input, bucket.value,
                          text_of(bucket.time.count), bias_text(bucket.time),
                          text_of(bucket.memory.count),
                          bias_text(bucket.memory)});
  return table;
}

void write_attribution(JsonWriter& json, const std::vector<RunResult>& runs) {
  json.key("attribution").begin_array();
  for (const Bucket& bucket : attribute_errors(runs)) {
    json.begin_object().field("input", bucket.input);
    json.field("value", bucket.value);
    write_errors(json, "time", bucket.time);
    write_errors(json, "memory", bucket.memory);
    json.end_object();
  }
  json.end_array();
}

}  // namespace ztplan
