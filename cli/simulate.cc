// ztplan simulate: where the time of one step goes, and its timeline.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/one_plan.h"
#include "cli/step.h"
#include "report/answer.h"
#include "report/trace.h"

namespace ztplan {
namespace {

constexpr const FlagGroup* kGroups[] = {
    &kModelFlags,  &kMachineFlags, &kTrainingFlags, &kStrategyFlags,
    &kMarginFlags, &kTraceFlags,   &kOutputFlags};

void write_trace_file(const Step& step, const Flags& flags,
                      const Console& console) {
  write_whole(
      flags.trace, flags.force ? Overwrite::yes : Overwrite::no,
      [&](std::ostream& out) { write_trace(step.graph, step.timeline, out); });
  if (!console.quiet) {
    note(fmt::format("wrote {}: open it in https://ui.perfetto.dev\n",
                     flags.trace));
  }
}

// Stage by stage where the step can be walked, which a trace requires.
std::vector<StageActivity> stages_of(const Judged& judged, const Flags& flags,
                                     const Console& console) {
  const Question& question = judged.asked.question;
  if (flags.trace.empty() && !is_walkable(question, judged.plan)) return {};
  const Step step = simulate_step(question, judged.plan);
  if (!flags.trace.empty()) write_trace_file(step, flags, console);
  return stage_activity(step.graph, step.timeline);
}

Exit run_simulate(const Flags& flags, const Console& console) {
  if (!flags.trace.empty()) {
    check_target(flags.trace, flags.force ? Overwrite::yes : Overwrite::no);
  }
  const Judged judged = judge(flags);
  const SimulateAnswer answer{judged.asked, judged.plan,
                              stages_of(judged, flags, console)};
  print(render_simulation(answer, console.showing()));
  return exit_of(judged, flags);
}

}  // namespace

const Command kSimulate{
    "simulate",
    "Where the time of a step goes, and its timeline.",
    "--model M --strategy S [flags]",
    {"ztplan simulate --model 175b --gpus 1024 --strategy tp=8,pp=8,sp=1",
     "ztplan simulate --model 7b --strategy dp=8,zero=3 --trace step.json",
     "ztplan simulate --model 7b --strategy dp=8,zero=3 --json"},
    kGroups,
    0,
    run_simulate};

}  // namespace ztplan
