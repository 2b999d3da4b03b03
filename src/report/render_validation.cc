#include "report/render_validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json_writer.h"
#include "base/quantity_text.h"
#include "base/table.h"
#include "report/labelled.h"
#include "report/number_text.h"
#include "report/one_plan_json.h"
#include "report/render.h"
#include "report/validation_parts.h"

namespace ztplan {
namespace {

constexpr std::size_t kReasonsShown = 10;
constexpr std::size_t kWorstShown = 20;

std::string_view fit_text(const RunResult& run) {
  return run.fit ? to_text(*run.fit) : "";
}

// JSON.

template <class T>
void write_or_null(JsonWriter& json, const char* key,
                   const std::optional<T>& value) {
  json.key(key);
  if (value) {
    json.value(*value);
  } else {
    json.null();
  }
}

void write_run(JsonWriter& json, const RunResult& run) {
  json.begin_object().field("id", run.id).field("source", run.source);
  write_or_null(json, "predicted_step_seconds", run.predicted_step);
  write_or_null(json, "measured_step_seconds", run.measured_step);
  write_or_null(json, "low_step_seconds", run.low_step);
  write_or_null(json, "high_step_seconds", run.high_step);
  write_or_null(json, "time_error", time_error(run));
  write_or_null(json, "predicted_peak_bytes", run.predicted_peak);
  write_or_null(json, "measured_peak_bytes", run.measured_peak);
  write_or_null(json, "low_peak_bytes", run.low_peak);
  write_or_null(json, "high_peak_bytes", run.high_peak);
  write_or_null(json, "memory_error", memory_error(run));
  if (!run.skipped.empty()) {
    json.field("skipped", run.skipped).end_object();
    return;
  }
  json.field("engine", run.engine).field("strategy", run.strategy);
  json.field("fit", fit_text(run)).end_object();
}

void write_summary(JsonWriter& json, const char* key,
                   const ErrorSummary& summary, const Coverage& held) {
  json.key(key).begin_object().field("count", summary.count);
  json.field("median_abs_error", summary.median_abs_error);
  json.field("p90_abs_error", summary.p90_abs_error);
  json.field("bias", summary.bias);
  json.field("intervals", held.count).field("held", held.held);
  json.field("coverage", held.share()).end_object();
}

void write_source(JsonWriter& json, const SourceResult& source) {
  json.begin_object().field("source", source.source);
  json.field("runs", source.runs).field("skipped", source.skipped);
  write_summary(json, "time", source.time, source.time_held);
  write_summary(json, "memory", source.memory, source.memory_held);
  json.end_object();
}

std::string validation_json(const Validation& validation,
                            const ValidationParts& parts,
                            const Showing& showing) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("schema", "ztplan.validate/1");
  json.key("runs").begin_array();
  for (const RunResult& run : validation.runs) write_run(json, run);
  json.end_array();
  write_summary(json, "time", validation.time, validation.time_held);
  write_summary(json, "memory", validation.memory, validation.memory_held);
  json.key("sources").begin_array();
  for (const SourceResult& source : validation.sources) {
    write_source(json, source);
  }
  json.end_array().key("skipped").begin_array();
  for (const ReasonCount& reason : validation.skipped) {
    json.begin_object().field("reason", reason.reason);
    json.field("count", reason.count).end_object();
  }
  json.end_array();
  write_order(json, validation.runs);
  if (parts.one_factor) write_factors(json, validation.runs);
  if (parts.attribution) write_attribution(json, validation.runs);
  write_timing(json, showing);
  json.end_object();
  return json.take();
}

// Tables.

template <class T>
std::string exact_or_empty(const std::optional<T>& value) {
  if (!value) return "";
  if constexpr (requires { value->value; }) {
    return fmt::format("{}", value->value);
  } else {
    return fmt::format("{}", *value);
  }
}

Table run_table(const Validation& validation) {
  Table table;
  for (const char* title :
       {"id", "source", "predicted_step_seconds", "measured_step_seconds",
        "low_step_seconds", "high_step_seconds", "time_error",
        "predicted_peak_bytes", "measured_peak_bytes", "low_peak_bytes",
        "high_peak_bytes", "memory_error", "skipped", "engine", "strategy",
        "fit"}) {
    table.columns.push_back({title});
  }
  for (const RunResult& run : validation.runs) {
    table.rows.push_back(
        {run.id, run.source, exact_or_empty(run.predicted_step),
         exact_or_empty(run.measured_step), exact_or_empty(run.low_step),
         exact_or_empty(run.high_step), exact_or_empty(time_error(run)),
         exact_or_empty(run.predicted_peak), exact_or_empty(run.measured_peak),
         exact_or_empty(run.low_peak), exact_or_empty(run.high_peak),
         exact_or_empty(memory_error(run)), run.skipped, run.engine,
         run.strategy, std::string(fit_text(run))});
  }
  return table;
}

std::string whole_share(const Coverage& held) {
  constexpr double kPercent = 100;
  return held.count == 0 ? "-"
                         : fmt::format("{:.0f}%", held.share() * kPercent);
}

void add_summary(std::vector<std::string>& row, const ErrorSummary& summary,
                 const Coverage& held) {
  row.push_back(fmt::format("{}", summary.count));
  if (summary.count == 0) {
    row.insert(row.end(), {"-", "-", "-", "-"});
    return;
  }
  row.push_back(share_text(summary.median_abs_error));
  row.push_back(share_text(summary.p90_abs_error));
  row.push_back(signed_share(summary.bias));
  row.push_back(whole_share(held));
}

void add_columns(Table& table, const char* what) {
  for (const char* title : {what, "median", "p90", "bias", "held"})
    table.columns.push_back({title, Align::right});
}

/// Without memory where none of a table's could be compared.
Table source_table(const Validation& validation) {
  const bool has_memory = validation.memory.count > 0;
  Table table{{{"source"}, {"runs", Align::right}}, {}};
  add_columns(table, "time");
  if (has_memory) add_columns(table, "memory");
  const auto add = [&](const std::string& name, std::int64_t runs,
                       const auto& group) {
    std::vector<std::string> row = {name, fmt::format("{}", runs)};
    add_summary(row, group.time, group.time_held);
    if (has_memory) add_summary(row, group.memory, group.memory_held);
    table.rows.push_back(std::move(row));
  };
  for (const SourceResult& source : validation.sources)
    add(source.source, source.runs, source);
  add("all", std::ssize(validation.runs), validation);
  return table;
}

Table reason_table(const Validation& validation, bool all) {
  Table table{{{"skipped", Align::right}, {"because"}}, {}};
  for (const ReasonCount& reason : validation.skipped) {
    if (!all && table.rows.size() == kReasonsShown) break;
    table.rows.push_back({fmt::format("{}", reason.count), reason.reason});
  }
  return table;
}

double worst_error(const RunResult& run) {
  return std::max(std::abs(time_error(run).value_or(0)),
                  std::abs(memory_error(run).value_or(0)));
}

Table worst_table(const Validation& validation) {
  std::vector<const RunResult*> runs;
  for (const RunResult& run : validation.runs) {
    if (worst_error(run) > 0) runs.push_back(&run);
  }
  std::ranges::stable_sort(
      runs, std::ranges::greater{},
      [](const RunResult* run) { return worst_error(*run); });
  if (runs.size() > kWorstShown) runs.resize(kWorstShown);
  Table table{{{"furthest off"},
               {"time", Align::right},
               {"memory", Align::right},
               {"strategy"}},
              {}};
  const auto shown = [](const std::optional<double>& error) {
    return error ? signed_share(*error) : std::string("-");
  };
  for (const RunResult* run : runs) {
    table.rows.push_back({run->id, shown(time_error(*run)),
                          shown(memory_error(*run)), run->strategy});
  }
  return table;
}

/// Tables that are asked for, or that have anything to say.
std::string part_tables(const Validation& validation,
                        const ValidationParts& parts, Format format) {
  std::string out;
  const auto add = [&](const Table& table) {
    if (!table.rows.empty()) out += "\n" + render(table, format);
  };
  add(ranking_table(validation.runs));
  if (parts.one_factor) add(factor_table(validation.runs));
  if (parts.attribution) add(attribution_table(validation.runs));
  return out;
}

std::string validation_text(const Validation& validation,
                            const ValidationParts& parts,
                            const Showing& showing) {
  const bool verbose = showing.style.verbose;
  std::string out = render(source_table(validation), showing.format);
  if (!validation.skipped.empty()) {
    out += "\n" + render(reason_table(validation, verbose), showing.format);
  }
  out += part_tables(validation, parts, showing.format);
  if (verbose) out += "\n" + render(worst_table(validation), showing.format);
  std::vector<Labelled> lines = {
      {"errors",
       "predicted / measured - 1; median and p90 of its size, bias its "
       "median"}};
  if (validation.time_held.count > 0)
    lines.push_back({"held",
                     "measured values inside the predicted interval, which is "
                     "to hold four of five"});
  if (validation.memory.count > 0)
    lines.push_back({"memory",
                     "measured figures are read as GiB, of the meter that the "
                     "table's notes name (reserved when they name none)"});
  for (Labelled& line : fit_lines(validation.runs))
    lines.push_back(std::move(line));
  if (showing.seconds)
    lines.push_back({"took", text(Seconds{*showing.seconds})});
  return out + "\n" + render_lines(lines, showing.format);
}

}  // namespace

std::string render_validation(const Validation& validation,
                              const ValidationParts& parts,
                              const Showing& showing) {
  if (showing.format == Format::json) {
    return validation_json(validation, parts, showing);
  }
  if (showing.format == Format::csv) return render_csv(run_table(validation));
  return validation_text(validation, parts, showing);
}

}  // namespace ztplan
