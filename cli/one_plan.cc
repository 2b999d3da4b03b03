#include "cli/one_plan.h"

#include "cli/ask.h"
#include "report/illegal.h"
#include "search/evaluate.h"
#include "strategy/ledger.h"

namespace ztplan {
namespace {

[[noreturn]] void refuse(const Question& question, const Strategy& strategy) {
  const Setting setting{question.model, question.cluster, question.workload};
  throw Illegal(*why_illegal(*question.engines.front(), setting, strategy));
}

}  // namespace

Judged judge(Flags flags) {
  const Strategy strategy = strategy_of(flags);
  return judge(ask(request_of(flags)), strategy);
}

Judged judge(Asked asked, const Strategy& strategy) {
  asked.question.margin = 0;
  const Question& question = asked.question;
  const Engine* engine = engine_for(question, strategy);
  if (engine == nullptr) refuse(question, strategy);
  Plan plan = evaluate(question, *engine, strategy);
  return {std::move(asked), std::move(plan)};
}

Exit exit_of(const Judged& judged, const Flags& flags) {
  const Question& question = judged.asked.question;
  if (shortage(question, judged.plan.memory)) return Exit::nothing_fits;
  const Bytes most =
      usable_memory(question.cluster, judged.asked.request.margin);
  const bool below = judged.plan.memory.peak() > most;
  return below && flags.strict ? Exit::below_margin : Exit::yes;
}

}  // namespace ztplan
