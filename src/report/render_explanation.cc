#include <fmt/format.h>

#include <algorithm>

#include "base/quantity_text.h"
#include "report/answer.h"
#include "report/labelled.h"
#include "report/number_text.h"
#include "report/one_plan_json.h"
#include "report/plan_json.h"
#include "report/question_json.h"
#include "report/render.h"
#include "report/summary.h"

namespace ztplan {
namespace {

constexpr std::size_t kReasons = 3;

std::string_view word_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::best:
      return "best";
    case Verdict::slower:
      return "slower";
    case Verdict::does_not_fit:
      return "does not fit";
    case Verdict::illegal:
      return "illegal";
  }
  return "?";
}

Paint color_of(Verdict verdict) {
  if (verdict == Verdict::best) return Paint::good;
  return verdict == Verdict::slower ? Paint::warning : Paint::bad;
}

// "1.20 s more bubble (1.50 s against 0.30 s)".
template <class Value>
std::string reason_of(const Difference<Value>& d) {
  const bool more = d.ours > d.theirs;
  const Value size = more ? d.ours - d.theirs : d.theirs - d.ours;
  return fmt::format("{} {} {} ({} against {})", text(size),
                     more ? "more" : "less", d.term, text(d.ours),
                     text(d.theirs));
}

template <class Value>
std::vector<std::string> largest(const std::vector<Difference<Value>>& all) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < std::min(all.size(), kReasons); ++i)
    found.push_back(reason_of(all[i]));
  return found;
}

std::vector<std::string> reasons(const Explanation& explanation) {
  if (!explanation.best) return {};
  return explanation.verdict == Verdict::does_not_fit
             ? largest(explanation.memory)
             : largest(explanation.time);
}

std::string step_against_best(const Explanation& e) {
  const Seconds ours = e.plan->time.total();
  const Seconds best = e.best->time.total();
  return fmt::format("{} s a step; the best takes {} s, {} less",
                     three_digits(ours.value), three_digits(best.value),
                     share_text((ours - best) / ours));
}

std::string largest_sentence(const MemoryBreakdown& memory) {
  const std::vector<TermBytes> terms = largest_terms(memory);
  return fmt::format("{} {} of {}", terms.front().name,
                     text(terms.front().bytes), text(memory.peak()));
}

// JSON.

template <class Value>
void write_differences(JsonWriter& json, const char* key, const char* unit,
                       const std::vector<Difference<Value>>& differences) {
  json.key(key).begin_array();
  for (const Difference<Value>& d : differences) {
    json.begin_object().field("term", d.term);
    json.field(unit, d.ours);
    json.field(fmt::format("best_{}", unit), d.theirs).end_object();
  }
  json.end_array();
}

std::string explanation_json(const ExplainAnswer& answer,
                             const Showing& showing) {
  const Explanation& e = answer.explanation;
  const Question& question = answer.asked.question;
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("schema", "ztplan.explain/1");
  write_question(json, answer.asked);
  json.field("verdict", word_of(e.verdict)).key("strategy");
  write_strategy(json, answer.strategy);
  write_misfits(json, e.misfits);
  if (e.lack) {
    json.key("shortage").begin_object();
    json.field("tier", name_of(e.lack->tier));
    json.field("missing_bytes", e.lack->missing).end_object();
  }
  write_differences(json, "time_differences", "seconds", e.time);
  write_differences(json, "memory_differences", "bytes", e.memory);
  json.key("reasons").begin_array();
  for (const std::string& reason : reasons(e)) json.value(reason);
  json.end_array().key("plans").begin_array();
  if (e.plan) write_plan(json, question, *e.plan, 1);
  json.end_array().key("best").begin_array();
  if (e.best) write_plan(json, question, *e.best, 1);
  json.end_array();
  write_timing(json, showing);
  json.end_object();
  return json.take();
}

// Text.

std::vector<Labelled> verdict_lines(const ExplainAnswer& answer,
                                    const Style& style) {
  const Explanation& e = answer.explanation;
  const std::string verdict =
      paint(style, color_of(e.verdict), word_of(e.verdict));
  if (e.verdict == Verdict::illegal) {
    std::vector<Labelled> lines = {{verdict, to_text(answer.strategy)}};
    for (const Misfit& misfit : e.misfits) {
      for (const Labelled& line : misfit_lines(misfit)) lines.push_back(line);
    }
    return lines;
  }
  const std::string memory = memory_sentence(answer.asked.question, *e.plan);
  if (e.verdict == Verdict::does_not_fit) {
    return {{verdict, memory}, {"largest", largest_sentence(e.plan->memory)}};
  }
  if (e.verdict == Verdict::slower) {
    return {{verdict, step_against_best(e)},
            {painted(style, fit_of(answer.asked.question, *e.plan)), memory}};
  }
  return {{verdict, step_sentence(*e.plan)},
          {painted(style, fit_of(answer.asked.question, *e.plan)), memory}};
}

std::vector<Labelled> reason_lines(const ExplainAnswer& answer,
                                   const Showing& showing) {
  const Explanation& e = answer.explanation;
  std::vector<Labelled> lines = verdict_lines(answer, showing.style);
  const char* label = "why";
  for (const std::string& reason : reasons(e)) {
    lines.push_back({label, reason});
    label = "";
  }
  if (e.verdict != Verdict::illegal) {
    lines.push_back({"asked", fmt::format("{} ({})", to_text(answer.strategy),
                                          e.plan->engine->name)});
  }
  if (e.best && e.verdict != Verdict::best) {
    lines.push_back({"best", fmt::format("{} ({})", to_text(e.best->strategy),
                                         e.best->engine->name)});
  }
  lines.push_back({"defaults", defaults_sentence(answer.asked.defaults)});
  if (showing.seconds) {
    lines.push_back({"took", text(Seconds{*showing.seconds})});
  }
  return lines;
}

Table difference_table(const Explanation& e) {
  Table table{{{"term"},
               {"asked", Align::right},
               {"best", Align::right},
               {"difference", Align::right}},
              {}};
  for (const auto& d : e.time) {
    table.rows.push_back({d.term, text(d.ours), text(d.theirs),
                          fmt::format("{:+.4f} s", (d.ours - d.theirs).value)});
  }
  for (const auto& d : e.memory) {
    table.rows.push_back({d.term, text(d.ours), text(d.theirs),
                          fmt::format("{:+.2f} GiB", gib(d.ours - d.theirs))});
  }
  return table;
}

Table explanation_csv(const ExplainAnswer& answer) {
  const Explanation& e = answer.explanation;
  Table table{{{"strategy"}, {"verdict"}, {"reason"}}, {}};
  std::vector<std::string> told = reasons(e);
  for (const Misfit& misfit : e.misfits) told.push_back(misfit.detail);
  if (told.empty()) told.emplace_back("");
  for (const std::string& reason : told) {
    table.rows.push_back(
        {to_text(answer.strategy), std::string(word_of(e.verdict)), reason});
  }
  return table;
}

}  // namespace

std::string_view verdict_word(const WhyNot& asked) {
  return word_of(asked.explanation.verdict);
}

std::string why_not_sentence(const WhyNot& asked) {
  const Explanation& e = asked.explanation;
  if (e.verdict == Verdict::illegal) {
    const Misfit& misfit = e.misfits.front();
    return fmt::format("{} (rule {}, {}); nearest {}", misfit.detail,
                       misfit.rule, misfit.engine, misfit.nearest);
  }
  if (e.verdict == Verdict::best) return "it is the first";
  std::string sentence = e.verdict == Verdict::does_not_fit
                             ? shortage_text(*e.lack)
                             : step_against_best(e);
  for (const std::string& reason : reasons(e)) sentence += "; " + reason;
  return sentence;
}

std::string render_explanation(const ExplainAnswer& answer,
                               const Showing& showing) {
  if (showing.format == Format::json) return explanation_json(answer, showing);
  if (showing.format == Format::csv) {
    return render_csv(explanation_csv(answer));
  }
  const Explanation& e = answer.explanation;
  std::string out = title(answer.asked) + "\n" +
                    render_lines(reason_lines(answer, showing), showing.format);
  const bool differ = !e.time.empty() || !e.memory.empty();
  if (showing.style.verbose && e.best && differ) {
    out += "\n" + render(difference_table(e), showing.format);
  }
  return out;
}

}  // namespace ztplan
