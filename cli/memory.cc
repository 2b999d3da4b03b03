// ztplan memory: bytes of one strategy, by stage, term and time.
#include "cli/command.h"
#include "cli/one_plan.h"
#include "cli/step.h"
#include "report/answer.h"

namespace ztplan {
namespace {

constexpr const FlagGroup* kGroups[] = {
    &kModelFlags,  &kMachineFlags, &kTrainingFlags, &kStrategyFlags,
    &kMarginFlags, &kMemoryFlags,  &kOutputFlags};

std::vector<StageCurve> curves_of(const Judged& judged) {
  const Question& question = judged.asked.question;
  const Setting setting{question.model, question.cluster, question.workload};
  const Step step = simulate_step(question, judged.plan);
  std::vector<StageCurve> curves;
  curves.reserve(static_cast<std::size_t>(step.graph.stages()));
  for (int stage = 0; stage < step.graph.stages(); ++stage) {
    curves.push_back(
        {stage, memory_curve(setting, *judged.plan.engine, judged.plan.strategy,
                             step.graph, step.timeline, stage)});
  }
  return curves;
}

Exit run_memory(const Flags& flags, const Console& console) {
  const Judged judged = judge(flags);
  MemoryAnswer answer{judged.asked, judged.plan, {}};
  if (flags.over_time) answer.curves = curves_of(judged);
  print(render_memory(answer, console.showing()));
  return exit_of(judged, flags);
}

}  // namespace

const Command kMemory{
    "memory",
    "Bytes of a strategy on each GPU, by term, stage and time.",
    "--model M --strategy S [flags]",
    {"ztplan memory --model llama3-8b --gpus 8 --strategy zero=3",
     "ztplan memory --model 175b --strategy tp=8,pp=16,dp=8,sp=1,zero=1",
     "ztplan memory --model 7b --strategy dp=8,zero=1 --over-time"},
    kGroups,
    0,
    run_memory};

}  // namespace ztplan
