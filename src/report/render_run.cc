#include <fmt/format.h>

#include <cmath>

#include "base/quantity_text.h"
#include "base/table.h"
#include "report/plan_json.h"
#include "report/run_answer.h"
#include "report/summary.h"
#include "spec/measured.h"

namespace ztplan {
namespace {

constexpr int kDeviceTerms = static_cast<int>(Term::overhead);

bool is_json(const Showing& showing) { return showing.format == Format::json; }

/// "1.23", of what was predicted; "-" where nothing was.
std::string ratio_text(double measured, double predicted) {
  return predicted > 0 ? fmt::format("{:.2f}", measured / predicted) : "-";
}

template <class Value>
std::vector<std::string> row(std::string name, Value predicted,
                             Value measured) {
  return {std::move(name), text(predicted), text(measured),
          ratio_text(static_cast<double>(measured.value),
                     static_cast<double>(predicted.value))};
}

struct TrafficTerm {
  const char* name;
  Bytes Traffic::*bytes;
};
constexpr TrafficTerm kTrafficTerms[] = {
    {"tensor", &Traffic::tensor},     {"data", &Traffic::data},
    {"pipeline", &Traffic::pipeline}, {"context", &Traffic::context},
    {"expert", &Traffic::expert},     {"offload", &Traffic::offload}};

void add_memory(const RunAnswer& answer, Table& table) {
  for (int i = 0; i < kDeviceTerms; ++i) {
    const auto term = static_cast<Term>(i);
    const Bytes predicted = answer.predicted.memory[term];
    const Bytes measured = answer.measured.memory[term];
    if (predicted == Bytes{} && measured == Bytes{}) continue;
    table.rows.push_back(row(std::string(to_text(term)), predicted, measured));
  }
}

void add_traffic(const RunAnswer& answer, Table& table) {
  for (const TrafficTerm& term : kTrafficTerms) {
    const Bytes predicted = answer.predicted.traffic.*term.bytes;
    const Bytes measured = answer.measured.traffic.*term.bytes;
    if (predicted == Bytes{} && measured == Bytes{}) continue;
    table.rows.push_back(
        row(fmt::format("{} sent", term.name), predicted, measured));
  }
}

void add_times(const RunAnswer& answer, Table& table) {
  for (int i = 0; i < kTimeTerms; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Seconds predicted = answer.predicted.terms[at];
    const Seconds measured = answer.measured.terms[at];
    if (predicted == Seconds{} && measured == Seconds{}) continue;
    table.rows.push_back(row(std::string(to_text(static_cast<TimeTerm>(i))),
                             predicted, measured));
  }
  table.rows.push_back(
      row("step", answer.predicted.step, answer.measured.step));
}

void write_costs(JsonWriter& json, const char* key, const RunCosts& costs) {
  json.key(key).begin_object().key("memory").begin_object();
  json.field("peak_bytes", costs.memory.peak());
  write_terms(json, costs.memory);
  json.field("host_bytes", costs.memory.host);
  json.field("nvme_bytes", costs.memory.nvme).end_object();
  json.key("time").begin_object().field("step_seconds", costs.step);
  for (int i = 0; i < kTimeTerms; ++i)
    json.field(fmt::format("{}_seconds", to_text(static_cast<TimeTerm>(i))),
               costs.terms[static_cast<std::size_t>(i)]);
  json.end_object();
  write_traffic(json, costs.traffic);
  json.end_object();
}

std::string end_json(const RunAnswer& answer) {
  JsonWriter json(JsonWriter::Layout::one_line);
  json.begin_object().field("schema", "ztplan.run/1");
  json.field("device", answer.device).field("steps", answer.steps);
  json.field("resumed_from", answer.resumed_from);
  json.field("interrupted", answer.interrupted);
  json.field("strategy", to_text(answer.plan.strategy));
  if (const auto& measured = answer.asked.question.calibration.measured)
    json.field("calibration_date", measured->date);
  write_costs(json, "predicted", answer.predicted);
  write_costs(json, "measured", answer.measured);
  json.end_object();
  return json.take() + "\n";
}

std::string step_json(const RunStep& step) {
  JsonWriter json(JsonWriter::Layout::one_line);
  json.begin_object().field("step", step.step);
  const auto number = [&](const char* key, double value) {
    json.key(key);
    if (std::isfinite(value))
      json.value(value);
    else
      json.null();
  };
  number("loss", step.loss);
  number("gradient_norm", step.gradient_norm);
  if (step.balance) number("balance_loss", *step.balance);
  json.field("learning_rate", step.learning_rate);
  json.field("seconds", step.seconds);
  json.field("tokens_per_second", step.tokens_per_second);
  json.field("mfu", step.mfu).field("skipped", step.skipped).end_object();
  return json.take() + "\n";
}

}  // namespace

std::string render_run_start(const Asked& asked, const Plan& plan,
                             const Showing& showing) {
  if (is_json(showing)) return {};
  std::vector<Labelled> lines{{"strategy", to_text(plan.strategy)}};
  std::string terms;
  for (int i = 0; i < kDeviceTerms; ++i) {
    const auto term = static_cast<Term>(i);
    if (plan.memory[term] == Bytes{}) continue;
    terms += fmt::format("{}{} {}", terms.empty() ? "" : ", ", to_text(term),
                         text(plan.memory[term]));
  }
  lines.push_back({"memory", terms + " a rank"});
  std::string sent;
  for (const TrafficTerm& term : kTrafficTerms) {
    const Bytes bytes = plan.traffic.*term.bytes;
    if (bytes == Bytes{}) continue;
    sent += fmt::format("{}{} {}", sent.empty() ? "" : ", ", term.name,
                        text(bytes));
  }
  lines.push_back({"traffic", sent.empty() ? "none" : sent + " a step"});
  return title(asked) + render_lines(lines, showing.format);
}

std::string render_run_step(const RunStep& step, const Showing& showing) {
  if (is_json(showing)) return step_json(step);
  return fmt::format(
      "step {}/{}  loss {:.4f}  norm {:.3f}{}  lr {:.2e}  {}  {:.4g} "
      "tokens/s{}\n",
      step.step, step.steps, step.loss, step.gradient_norm,
      step.balance ? fmt::format("  balance {:.4f}", *step.balance) : "",
      step.learning_rate, text(step.seconds), step.tokens_per_second,
      step.skipped ? "  skipped: gradients overflowed" : "");
}

std::string render_run_end(const RunAnswer& answer, const Showing& showing) {
  if (is_json(showing)) return end_json(answer);
  Table table{{{answer.interrupted ? "interrupted" : "done", Align::left},
               {"predicted", Align::right},
               {fmt::format("measured ({})", answer.device), Align::right},
               {"ratio", Align::right}},
              {}};
  add_memory(answer, table);
  add_traffic(answer, table);
  add_times(answer, table);
  const std::string note =
      fmt::format("times are predicted for {}, measured on this machine\n",
                  answer.asked.question.cluster.name);
  return "\n" +
         (showing.format == Format::md ? render_markdown(table)
                                       : render_text(table)) +
         note;
}

}  // namespace ztplan
