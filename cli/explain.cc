// ztplan explain: why a strategy is not the first.
#include "cli/ask.h"
#include "cli/command.h"
#include "report/answer.h"

namespace ztplan {
namespace {

constexpr const FlagGroup* kGroups[] = {&kModelFlags, &kMachineFlags,
                                        &kTrainingFlags, &kStrategyFlags,
                                        &kOutputFlags};

Exit exit_of(Verdict verdict) {
  if (verdict == Verdict::illegal) return Exit::illegal;
  return verdict == Verdict::does_not_fit ? Exit::nothing_fits : Exit::yes;
}

Exit run_explain(const Flags& typed, const Console& console) {
  Flags flags = typed;
  const Strategy strategy = strategy_of(flags);
  const Asked asked = ask(request_of(flags));
  const Explanation explanation = explain(asked.question, strategy);
  print(render_explanation({asked, strategy, explanation}, console.showing()));
  return exit_of(explanation.verdict);
}

}  // namespace

const Command kExplain{
    "explain",
    "Why a strategy is illegal, does not fit or is slower.",
    "--model M --gpus N --strategy S [flags]",
    {"ztplan explain --model 175b --gpus 1024 --strategy tp=16,pp=8",
     "ztplan explain --model llama3-8b --gpus 8 --strategy tp=8 -v",
     "ztplan explain --model 7b --gpus 8 --strategy zero=0 --json"},
    kGroups,
    0,
    run_explain};

}  // namespace ztplan
