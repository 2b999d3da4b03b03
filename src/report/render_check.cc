#include <fmt/format.h>

#include <algorithm>

#include "base/quantity_text.h"
#include "report/check_answer.h"
#include "report/labelled.h"
#include "report/number_text.h"
#include "report/one_plan_json.h"
#include "report/plan_json.h"
#include "report/question_json.h"
#include "report/render.h"
#include "report/summary.h"

namespace ztplan {
namespace {

const char* verdict_of(const CheckAnswer& answer) {
  if (answer.is_illegal()) return "illegal";
  if (!answer.plan) return "legal";
  return to_text(fit_of(answer.asked->question, *answer.plan)).data();
}

Paint color_of(const CheckAnswer& answer) {
  if (answer.is_illegal() || answer.lack) return Paint::bad;
  return Paint::good;
}

std::string check_json(const CheckAnswer& answer, const Showing& showing) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("schema", "ztplan.check/1");
  json.field("format", answer.format);
  json.field("engine", answer.engine->name);
  json.field("engine_version", answer.engine->version);
  json.field("verdict", verdict_of(answer));
  if (answer.asked != nullptr) write_question(json, *answer.asked);
  json.key("strategy");
  write_strategy(json, answer.strategy);
  write_findings(json, "findings", answer.findings);
  write_misfits(json, answer.misfits);
  if (answer.lack) {
    json.key("shortage").begin_object();
    json.field("tier", name_of(answer.lack->tier));
    json.field("missing_bytes", answer.lack->missing).end_object();
  }
  json.key("plans").begin_array();
  if (answer.plan) write_plan(json, answer.asked->question, *answer.plan, 1);
  json.end_array();
  write_remedies(json, answer.remedies);
  json.key("unsaid").begin_array();
  for (const std::string& key : answer.unsaid) json.value(key);
  json.end_array();
  write_timing(json, showing);
  json.end_object();
  return json.take();
}

std::string largest_share(const Plan& plan) {
  const std::vector<TermSeconds> terms = largest_terms(plan.time);
  return fmt::format("{} takes {} of {}", to_text(terms.front().term),
                     text(terms.front().seconds), text(plan.time.total()));
}

/// The largest term of time that is no compute, and what usually shrinks it.
std::string slow_advice(const Plan& plan) {
  TimeTerm worst = TimeTerm::bubble;
  for (int i = 0; i < kTimeTerms; ++i) {
    const auto term = static_cast<TimeTerm>(i);
    if (term != TimeTerm::compute && plan.time[worst] < plan.time[term])
      worst = term;
  }
  const double share = plan.time[worst] / plan.time.total();
  constexpr double kWorthTelling = 0.15;
  if (share < kWorthTelling) return "";
  const char* advice = "";
  switch (worst) {
    case TimeTerm::data_comm:
      advice =
          "more accumulation, shards inside a node (shard=, HSDP) or a lower "
          "ZeRO stage";
      break;
    case TimeTerm::tensor_comm:
      advice = "tensor parallelism inside the fastest links, or less of it";
      break;
    case TimeTerm::offload:
      advice = "a larger batch or accumulation, or less offload";
      break;
    case TimeTerm::bubble:
      advice = "more micro-batches, interleaved stages, or fewer stages";
      break;
    case TimeTerm::expert_comm:
      advice = "experts inside a node";
      break;
    default:
      advice = "a larger batch";
      break;
  }
  return fmt::format("{} is {} of the step: {}", to_text(worst),
                     share_text(share), advice);
}

void add_findings(const CheckAnswer& answer, std::vector<Labelled>& lines) {
  for (const Finding& finding : answer.findings) {
    lines.push_back({std::string(to_text(finding.severity)),
                     fmt::format("{}: {}", finding.key, finding.detail)});
    if (!finding.remedy.empty()) lines.push_back({"", finding.remedy});
    lines.push_back({"", fmt::format("({})", finding.source)});
  }
}

std::vector<Labelled> lines_of(const CheckAnswer& answer,
                               const Showing& showing) {
  std::vector<Labelled> lines;
  const std::string verdict =
      paint(showing.style, color_of(answer), verdict_of(answer));
  if (answer.plan)
    lines.push_back(
        {verdict, memory_sentence(answer.asked->question, *answer.plan)});
  else
    lines.push_back({verdict, answer.is_illegal()
                                  ? "the engine refuses it"
                                  : "nothing found against it"});
  for (const Misfit& misfit : answer.misfits)
    for (const Labelled& line : misfit_lines(misfit)) lines.push_back(line);
  add_findings(answer, lines);
  lines.push_back(
      {"strategy", fmt::format("{} ({} {})", to_text(answer.strategy),
                               answer.engine->name, answer.engine->version)});
  if (answer.plan) {
    lines.push_back({"step", step_sentence(*answer.plan)});
    lines.push_back({"slowest", largest_share(*answer.plan)});
    const std::string slow = slow_advice(*answer.plan);
    if (!slow.empty()) lines.push_back({"slow", slow});
  }
  if (!answer.unsaid.empty()) {
    std::string all;
    for (const std::string& key : answer.unsaid)
      all += (all.empty() ? "" : ", ") + key;
    lines.push_back({"unsaid", all + ": give them in --strategy or by flags"});
  }
  if (answer.asked != nullptr)
    add_warnings(answer.asked->question, answer.plan, lines);
  if (answer.asked != nullptr)
    lines.push_back({"defaults", defaults_sentence(answer.asked->defaults)});
  return lines;
}

Table memory_table(const MemoryBreakdown& memory) {
  Table table{{{"term"}, {"GiB", Align::right}}, {}};
  for (const TermBytes& term : largest_terms(memory))
    table.rows.push_back({term.name, gib_text(term.bytes)});
  return table;
}

Table finding_table(const CheckAnswer& answer) {
  Table table{{{"verdict"}, {"severity"}, {"rule"}, {"key"}, {"detail"}}, {}};
  for (const Misfit& misfit : answer.misfits)
    table.rows.push_back(
        {verdict_of(answer), "refused", misfit.rule, "", misfit.detail});
  for (const Finding& finding : answer.findings)
    table.rows.push_back({verdict_of(answer),
                          std::string(to_text(finding.severity)), finding.rule,
                          finding.key, finding.detail});
  if (table.rows.empty())
    table.rows.push_back({verdict_of(answer), "", "", "", ""});
  return table;
}

}  // namespace

bool CheckAnswer::is_illegal() const {
  if (!misfits.empty()) return true;
  for (const Finding& finding : findings)
    if (finding.severity == Severity::refused) return true;
  return false;
}

void write_remedies(JsonWriter& json, const std::vector<Remedy>& remedies) {
  json.key("remedies").begin_array();
  for (const Remedy& remedy : remedies) {
    json.begin_object().field("change", remedy.change);
    json.field("strategy", to_text(remedy.plan.strategy));
    json.field("gpus", remedy.plan.gpus);
    json.field("peak_bytes", remedy.plan.memory.peak());
    json.field("host_bytes", remedy.plan.memory.host);
    json.field("step_seconds", remedy.plan.time.total());
    json.field("fits", remedy.fits).end_object();
  }
  json.end_array();
}

Table remedy_table(const std::vector<Remedy>& remedies) {
  const bool on_hosts = std::ranges::any_of(remedies, [](const Remedy& remedy) {
    return remedy.plan.memory.host > Bytes{0};
  });
  Table table{{{"change"}, {"GiB", Align::right}}, {}};
  if (on_hosts) table.columns.push_back({"host GiB", Align::right});
  table.columns.push_back({"step", Align::right});
  table.columns.push_back({"fits"});
  for (const Remedy& remedy : remedies) {
    const MemoryBreakdown& memory = remedy.plan.memory;
    std::vector<std::string> row = {remedy.change, gib_text(memory.peak())};
    if (on_hosts) row.push_back(gib_text(memory.host));
    row.push_back(text(remedy.plan.time.total()));
    row.emplace_back(remedy.fits ? "yes" : "no");
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string render_check(const CheckAnswer& answer, const Showing& showing) {
  if (showing.format == Format::json) return check_json(answer, showing);
  if (showing.format == Format::csv) return render_csv(finding_table(answer));
  std::string out;
  if (answer.asked != nullptr) out += title(*answer.asked) + "\n";
  out += render_lines(lines_of(answer, showing), showing.format);
  if (answer.plan)
    out += "\n" + render(memory_table(answer.plan->memory), showing.format);
  if (!answer.remedies.empty())
    out += "\n" + render(remedy_table(answer.remedies), showing.format);
  return out;
}

}  // namespace ztplan
