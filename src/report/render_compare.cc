#include <fmt/format.h>

#include <cmath>

#include "base/quantity_text.h"
#include "report/compare_answer.h"
#include "report/labelled.h"
#include "report/number_text.h"
#include "report/one_plan_json.h"
#include "report/plan_json.h"
#include "report/question_json.h"
#include "report/render.h"
#include "report/summary.h"

namespace ztplan {
namespace {

/// One line of the comparison: what, in which unit, and both values.
struct Line {
  std::string term;
  const char* unit;  // "bytes", "seconds", "per_second", "share"
  double a = 0, b = 0;
};

double bytes(Bytes value) { return static_cast<double>(value.value); }

void add_memory(const Plan& a, const Plan& b, std::vector<Line>& lines) {
  lines.push_back(
      {"peak", "bytes", bytes(a.memory.peak()), bytes(b.memory.peak())});
  for (int i = 0; i < kTerms; ++i) {
    const auto term = static_cast<Term>(i);
    lines.push_back({std::string(to_text(term)), "bytes", bytes(a.memory[term]),
                     bytes(b.memory[term])});
  }
  lines.push_back(
      {"host", "bytes", bytes(a.memory.host), bytes(b.memory.host)});
  lines.push_back(
      {"nvme", "bytes", bytes(a.memory.nvme), bytes(b.memory.nvme)});
}

void add_time(const Plan& a, const Plan& b, std::vector<Line>& lines) {
  lines.push_back(
      {"step", "seconds", a.time.total().value, b.time.total().value});
  for (int i = 0; i < kTimeTerms; ++i) {
    const auto term = static_cast<TimeTerm>(i);
    lines.push_back({std::string(to_text(term)), "seconds", a.time[term].value,
                     b.time[term].value});
  }
}

void add_rates(const Plan& a, const Plan& b, std::vector<Line>& lines) {
  const Throughput &x = a.throughput, &y = b.throughput;
  lines.push_back(
      {"tokens", "per_second", x.tokens_per_second, y.tokens_per_second});
  lines.push_back({"tokens a GPU", "per_second", x.tokens_per_second_per_gpu,
                   y.tokens_per_second_per_gpu});
  lines.push_back({"mfu", "share", x.mfu, y.mfu});
  lines.push_back(
      {"data sent", "bytes", bytes(a.traffic.data), bytes(b.traffic.data)});
  lines.push_back({"tensor sent", "bytes", bytes(a.traffic.tensor),
                   bytes(b.traffic.tensor)});
  lines.push_back({"all sent", "bytes", bytes(a.traffic.total()),
                   bytes(b.traffic.total())});
}

std::vector<Line> lines_of(const Plan& a, const Plan& b) {
  std::vector<Line> lines;
  add_memory(a, b, lines);
  add_time(a, b, lines);
  add_rates(a, b, lines);
  std::erase_if(lines,
                [](const Line& line) { return line.a == 0 && line.b == 0; });
  return lines;
}

void write_value(JsonWriter& json, const Line& line, const char* key,
                 double value) {
  if (std::string_view(line.unit) == "bytes")
    json.field(key, std::llround(value));
  else
    json.field(key, value);
}

std::string compare_json(const Compared& a, const Compared& b,
                         const Showing& showing) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("schema", "ztplan.compare/1");
  json.key("plans").begin_array();
  write_plan(json, a.asked.question, a.plan, 1);
  write_plan(json, b.asked.question, b.plan, 2);
  json.end_array().key("names").begin_array();
  json.value(a.name).value(b.name).end_array();
  json.key("differences").begin_array();
  for (const Line& line : lines_of(a.plan, b.plan)) {
    json.begin_object().field("term", line.term).field("unit", line.unit);
    write_value(json, line, "a", line.a);
    write_value(json, line, "b", line.b);
    json.end_object();
  }
  json.end_array();
  write_timing(json, showing);
  json.end_object();
  return json.take();
}

std::string shown(const Line& line, double value) {
  const std::string_view unit = line.unit;
  if (unit == "bytes") return text(Bytes{std::llround(value)});
  if (unit == "seconds") return text(Seconds{value});
  if (unit == "share") return share_text(value);
  return fmt::format("{}/s", three_digits(value));
}

std::string exact(const Line& line, double value) {
  if (std::string_view(line.unit) == "bytes")
    return fmt::format("{}", std::llround(value));
  return fmt::format("{}", value);
}

Table compare_csv(const Plan& a, const Plan& b) {
  Table table{{{"term"}, {"unit"}, {"a"}, {"b"}}, {}};
  for (const Line& line : lines_of(a, b))
    table.rows.push_back(
        {line.term, line.unit, exact(line, line.a), exact(line, line.b)});
  return table;
}

std::string change(const Line& line) {
  if (line.a == line.b) return "";
  if (line.a == 0) return "new";
  const double times = line.b / line.a;
  constexpr double kMostPercent = 10;
  constexpr double kMostTimes = 1000;
  if (times > kMostTimes) return fmt::format("over {:g} times", kMostTimes);
  if (times >= kMostPercent)
    return fmt::format("{} times", three_digits(times));
  constexpr double kPercent = 100;
  return fmt::format("{:+.1f}%", (times - 1) * kPercent);
}

}  // namespace

std::string render_compare(const Compared& a, const Compared& b,
                           const Showing& showing) {
  if (showing.format == Format::json) return compare_json(a, b, showing);
  if (showing.format == Format::csv)
    return render_csv(compare_csv(a.plan, b.plan));
  Table table{{{"term"},
               {"A", Align::right},
               {"B", Align::right},
               {"B against A", Align::right}},
              {}};
  for (const Line& line : lines_of(a.plan, b.plan))
    table.rows.push_back(
        {line.term, shown(line, line.a), shown(line, line.b), change(line)});
  const auto named = [](const Compared& side) {
    return fmt::format("{} ({}): {}", side.name, side.plan.engine->name,
                       to_text(side.plan.strategy));
  };
  return title(a.asked) + "\n" +
         render_lines(
             {{"A", named(a)},
              {"B", named(b)},
              {"verdict",
               fmt::format("A {}, B {}",
                           to_text(fit_of(a.asked.question, a.plan)),
                           to_text(fit_of(b.asked.question, b.plan)))}},
             showing.format) +
         "\n" + render(table, showing.format);
}

}  // namespace ztplan
