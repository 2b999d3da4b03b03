// ztplan plan: the best strategies, ranked, and a plan file.
#include <ostream>

#include "cli/ask.h"
#include "cli/command.h"
#include "report/answer.h"
#include "search/rank.h"
#include "strategy/field_text.h"

namespace ztplan {
namespace {

constexpr const FlagGroup* kGroups[] = {
    &kModelFlags,  &kMachineFlags, &kTrainingFlags, &kLimitFlags,
    &kSearchFlags, &kMarginFlags,  &kFileFlags,     &kOutputFlags};

Ranking search(const Question& question, const Console& console) {
  ProgressLine line(console, "strategies considered");
  return rank(question, [&](std::int64_t done) { line.show(done); });
}

Exit exit_of(const PlanAnswer& answer, const Flags& flags) {
  if (answer.ranking.plans.empty()) {
    return answer.ranking.too_big > 0 ? Exit::nothing_fits : Exit::illegal;
  }
  return answer.below_margin && flags.strict ? Exit::below_margin : Exit::yes;
}

void write_plan_file(const PlanAnswer& answer, const Flags& flags) {
  if (flags.output.empty() || answer.ranking.plans.empty()) return;
  write_whole(flags.output, flags.force ? Overwrite::yes : Overwrite::no,
              [&](std::ostream& out) { out << plan_file(answer); });
}

std::vector<WhyNot> why_not(const PlanAnswer& answer, const Flags& flags) {
  std::vector<WhyNot> reasons;
  if (flags.why_not.empty()) return reasons;
  const Question& question = answer.asked.question;
  const std::vector<Plan>& plans = answer.ranking.plans;
  const std::optional<Plan> best =
      plans.empty() ? std::nullopt : std::optional(plans.front());
  const std::string engine = engine_named(flags);
  for (const std::string_view text : split(flags.why_not, ';')) {
    const Strategy strategy =
        parse_strategy(meant_by(engine, text), question.cluster.devices);
    reasons.push_back({strategy, explain(question, strategy, best)});
  }
  return reasons;
}

Exit run_plan(const Flags& flags, const Console& console) {
  if (!flags.output.empty()) {
    check_target(flags.output, flags.force ? Overwrite::yes : Overwrite::no);
  }
  Asked asked = ask(request_of(flags));
  Ranking ranking = search(asked.question, console);
  const bool below = ranking.plans.empty() && asked.question.margin > 0;
  if (below) {
    asked.question.margin = 0;
    ranking = search(asked.question, console);
  }
  PlanAnswer answer{asked, ranking, below && !ranking.plans.empty(), {}};
  if (ranking.plans.empty() && ranking.too_big == 0) {
    answer.misfits = why_none(asked.question);
  }
  answer.why_not = why_not(answer, flags);
  write_plan_file(answer, flags);
  print(render_plans(answer, console.showing()));
  return exit_of(answer, flags);
}

}  // namespace

const Command kPlan{"plan",
                    "Finds the best strategies and ranks them.",
                    "--model M --gpus N [flags]",
                    {"ztplan plan --model 175b --gpus 1024",
                     "ztplan plan --model llama3-8b --gpus 8 --gpu 4090",
                     "ztplan plan --model 7b --gpus 64 --zero 1 -o plan.json"},
                    kGroups,
                    0,
                    run_plan};

}  // namespace ztplan
