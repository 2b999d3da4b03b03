#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/quantity_text.h"
#include "report/answer.h"
#include "report/command_text.h"
#include "report/comparison.h"
#include "report/labelled.h"
#include "report/number_text.h"
#include "report/plan_json.h"
#include "report/plan_table.h"
#include "report/question_json.h"
#include "report/render.h"
#include "report/summary.h"
#include "search/interval.h"

namespace ztplan {
namespace {

/// Steps of the other plans over that of the best, those on as many GPUs: a
/// choice of GPUs is no choice of layout.
std::vector<StepRatio> ratios_to_best(const PlanAnswer& answer) {
  const std::vector<Plan>& plans = answer.ranking.plans;
  if (plans.size() < 2) return {};
  const Question question = question_of(answer.asked.question, plans.front());
  const auto swung = [&](const Plan& plan) {
    return SwungStep{plan.time.total(), step_swings(question, plan)};
  };
  const SwungStep best = swung(plans.front());
  std::vector<StepRatio> ratios;
  for (std::size_t i = 1; i < plans.size(); ++i) {
    if (plans[i].gpus != plans.front().gpus) break;
    ratios.push_back(step_ratio(best, swung(plans[i])));
  }
  return ratios;
}

// JSON.

void write_miss(JsonWriter& json, const NearMiss& miss) {
  json.key("nearest_miss").begin_object().key("strategy");
  write_strategy(json, miss.strategy);
  json.field("missing_bytes", miss.missing);
  json.field("tier", name_of(miss.tier));
  json.field("peak_bytes", miss.memory.peak()).end_object();
}

void write_search(JsonWriter& json, const Ranking& ranking) {
  json.key("search").begin_object().field("candidates", ranking.candidates);
  json.field("illegal", ranking.illegal).field("too_big", ranking.too_big);
  json.field("fit", ranking.fit).field("simulated", ranking.simulated);
  json.key("illegal_by_rule").begin_array();
  for (const RuleCount& rule : ranking.illegal_by_rule) {
    json.begin_object().field("rule", rule.rule).field("count", rule.count);
    json.end_object();
  }
  json.end_array();
  if (ranking.nearest_miss) write_miss(json, *ranking.nearest_miss);
  json.end_object();
}

void write_why_not(JsonWriter& json, const std::vector<WhyNot>& all) {
  json.key("why_not").begin_array();
  for (const WhyNot& asked : all) {
    json.begin_object().field("strategy", to_text(asked.strategy));
    json.field("verdict", verdict_word(asked));
    json.field("reason", why_not_sentence(asked)).end_object();
  }
  json.end_array();
}

std::string_view verdict_word(const PlanAnswer& answer) {
  const Ranking& ranking = answer.ranking;
  if (!ranking.plans.empty()) {
    const Plan& best = ranking.plans.front();
    return answer.below_margin
               ? to_text(Fit::tight)
               : to_text(
                     fit_of(question_of(answer.asked.question, best), best));
  }
  return ranking.too_big > 0 ? to_text(Fit::does_not_fit) : "illegal";
}

/// The best plan against each other: "told_apart" is false where either may be
/// the faster.
void write_alike(JsonWriter& json, const PlanAnswer& answer) {
  json.key("against_best").begin_array();
  int rank = 1;
  for (const StepRatio& ratio : ratios_to_best(answer)) {
    json.begin_object().field("rank", ++rank);
    json.field("step_ratio", ratio.likely).field("low", ratio.low);
    json.field("high", ratio.high);
    json.field("told_apart", !is_alike(ratio)).end_object();
  }
  json.end_array();
}

std::string plans_json(const PlanAnswer& answer, std::size_t most,
                       const std::optional<double>& seconds) {
  JsonWriter json(JsonWriter::Layout::indented);
  json.begin_object().field("schema", "ztplan.plan/1");
  write_question(json, answer.asked);
  write_search(json, answer.ranking);
  json.field("verdict", verdict_word(answer));
  json.field("below_margin", answer.below_margin);
  json.key("plans").begin_array();
  int rank = 0;
  for (const Plan& plan : answer.ranking.plans) {
    if (static_cast<std::size_t>(rank) == most) break;
    write_plan(json, question_of(answer.asked.question, plan), plan, ++rank);
  }
  json.end_array();
  write_alike(json, answer);
  if (!answer.misfits.empty()) write_misfits(json, answer.misfits);
  if (!answer.why_not.empty()) write_why_not(json, answer.why_not);
  if (seconds) {
    json.key("timing").begin_object().field("seconds", *seconds).end_object();
  }
  json.end_object();
  return json.take();
}

// Text.

std::string rounded(std::int64_t count) {
  return count_text(static_cast<double>(count));
}

std::string search_sentence(const Ranking& ranking) {
  std::string out =
      fmt::format("{}: {} illegal, {} too big", rounded(ranking.candidates),
                  rounded(ranking.illegal), rounded(ranking.too_big));
  if (ranking.nearest_miss) {
    out += fmt::format(" (nearest by {})", text(ranking.nearest_miss->missing));
  }
  return out + fmt::format(", {} fit", rounded(ranking.fit));
}

std::vector<Labelled> best_lines(const PlanAnswer& answer, const Style& style) {
  const Plan& best = answer.ranking.plans.front();
  const Question question = question_of(answer.asked.question, best);
  const Fit fit = answer.below_margin ? Fit::tight : fit_of(question, best);
  std::string memory = memory_sentence(question, best);
  if (answer.below_margin) {
    memory += fmt::format("; none leaves the margin of {} free",
                          share_text(answer.asked.request.margin));
  }
  return {{painted(style, fit),
           fmt::format("{}; engine {}", memory, best.engine->name)},
          {"best", to_text(best.strategy)},
          {"step", step_sentence(best)},
          {"speed", speed_sentence(best)}};
}

std::vector<Labelled> miss_lines(const NearMiss& miss, const Style& style) {
  return {
      {paint(style, Paint::bad, to_text(Fit::does_not_fit)),
       "no strategy fits"},
      {"nearest", to_text(miss.strategy)},
      {"", fmt::format("needs {} GiB a GPU; {}", gib_text(miss.memory.peak()),
                       shortage_text({miss.tier, miss.missing}))}};
}

std::vector<Labelled> illegal_lines(const PlanAnswer& answer,
                                    const Style& style) {
  std::vector<Labelled> lines = {
      {paint(style, Paint::bad, "illegal"), "no strategy is legal"}};
  for (const Misfit& misfit : answer.misfits) {
    for (const Labelled& line : misfit_lines(misfit)) lines.push_back(line);
  }
  return lines;
}

std::vector<Labelled> verdict_lines(const PlanAnswer& answer,
                                    const Style& style) {
  const Ranking& ranking = answer.ranking;
  if (!ranking.plans.empty()) return best_lines(answer, style);
  if (ranking.nearest_miss) return miss_lines(*ranking.nearest_miss, style);
  return illegal_lines(answer, style);
}

std::string next_command(const PlanAnswer& answer) {
  const Asked& asked = answer.asked;
  if (answer.ranking.plans.empty()) {
    return answer.ranking.nearest_miss
               ? larger_plan_text(asked)
               : command_text("plan", asked, asked.question.cluster.devices);
  }
  const Plan& best = answer.ranking.plans.front();
  return fmt::format("{} --trace step.json --strategy={}",
                     command_text("simulate", asked, best.gpus),
                     short_text(best.strategy));
}

/// "; 1 to 5 are alike (+-11%)": the plans that may be as fast as the best,
/// within what the inputs they do not share leave; empty where none may.
std::string alike_remark(const PlanAnswer& answer) {
  constexpr double kPercent = 100;
  const std::vector<StepRatio> ratios = ratios_to_best(answer);
  const auto last = std::ranges::find_if_not(ratios, is_alike);
  if (last == ratios.begin()) return "";
  const StepRatio& ratio = *std::prev(last);
  return fmt::format("; 1 to {} are alike (+-{:.0f}%)",
                     last - ratios.begin() + 1,
                     (ratio.high / ratio.likely - 1) * kPercent);
}

std::vector<Labelled> closing_lines(const PlanAnswer& answer,
                                    const Showing& showing) {
  const Ranking& ranking = answer.ranking;
  std::vector<Labelled> lines;
  if (ranking.plans.size() > 1) {
    lines.push_back({"why", comparison(ranking.plans[0], ranking.plans[1],
                                       answer.asked.question.objective) +
                                alike_remark(answer)});
  }
  for (const WhyNot& asked : answer.why_not)
    lines.push_back(
        {"why not", fmt::format("{}: {}: {}", to_text(asked.strategy),
                                verdict_word(asked), why_not_sentence(asked))});
  if (showing.style.verbose && !ranking.plans.empty())
    add_warnings(question_of(answer.asked.question, ranking.plans.front()),
                 ranking.plans.front(), lines);
  lines.push_back({"searched", search_sentence(ranking)});
  lines.push_back({"defaults", defaults_sentence(answer.asked.defaults)});
  lines.push_back({"next", next_command(answer), LineKind::command});
  if (showing.seconds)
    lines.push_back({"took", text(Seconds{*showing.seconds})});
  return lines;
}

std::string rule_lines(const Ranking& ranking) {
  Table table{{{"rule broken"}, {"strategies", Align::right}}, {}};
  for (const RuleCount& rule : ranking.illegal_by_rule) {
    table.rows.push_back({rule.rule, grouped(rule.count)});
  }
  return table.rows.empty() ? "" : "\n" + render_text(table);
}

std::string plans_text(const PlanAnswer& answer, const Showing& showing) {
  const Ranking& ranking = answer.ranking;
  std::string out =
      title(answer.asked) + "\n" +
      render_lines(verdict_lines(answer, showing.style), showing.format) + "\n";
  if (!ranking.plans.empty()) {
    out += render(plan_table(ranking.plans), showing.format) + "\n";
  }
  out += render_lines(closing_lines(answer, showing), showing.format);
  if (showing.style.verbose) out += rule_lines(ranking);
  return out;
}

}  // namespace

std::string render_plans(const PlanAnswer& answer, const Showing& showing) {
  const std::vector<Plan>& plans = answer.ranking.plans;
  if (showing.format == Format::json) {
    return plans_json(answer, plans.size(), showing.seconds);
  }
  if (showing.format == Format::csv) {
    return render_csv(plan_csv(answer.asked.question, plans));
  }
  return plans_text(answer, showing);
}

std::string plan_file(const PlanAnswer& answer) {
  return plans_json(answer, 1, std::nullopt);
}

}  // namespace ztplan
