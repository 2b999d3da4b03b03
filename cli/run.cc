// ztplan run: trains with a plan on this machine, then predicted beside
// measured. Ranks are threads of this process, or processes that a launcher
// started.
#include <unistd.h>

#include <string>

#include "cli/command.h"
#include "cli/run_processes.h"
#include "cli/run_setup.h"
#include "cli/stop.h"

namespace ztplan {
namespace {

constexpr const FlagGroup* kGroups[] = {
    &kRunFlags,       &kCheckpointFlags, &kModelFlags,
    &kMachineFlags,   &kTrainingFlags,   &kStrategyFlags,
    &kToleranceFlags, &kTraceFlags,      &kOutputFlags};

Exit run_threads(const Flags& flags, const Console& console) {
  const RunSetup setup = set_up_run(flags);
  if (!fits(setup)) return refuse_to_fit(setup);
  print_start(setup, console);
  const StopsWhenAsked stops;
  const TrainingOutcome outcome =
      run_training(job_of(setup), stops.asked(), step_printer(setup, console));
  return conclude(setup, outcome, flags, console);
}

Environment environment() {
  Environment all;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string line = *at;
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos)
      all[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return all;
}

Exit run_run(const Flags& flags, const Console& console) {
  const auto launched = find_launched_rank(environment());
  return launched && launched->world > 1
             ? run_processes(flags, console, *launched)
             : run_threads(flags, console);
}

}  // namespace

const Command kRun{
    "run",
    "Trains with a plan on this machine: predicted beside measured.",
    "PLAN.json --data FILE [flags]",
    {"ztplan run plan.json --data text.txt --steps 200",
     "ztplan run --model gpt:layers=2,hidden=64,heads=4,vocab=256 --seq 64 "
     "--global-batch 8 --strategy dp=2,zero=3 --data text.txt",
     "ztplan run plan.json --data text.txt --checkpoint saved/ --save-every 50 "
     "--resume"},
    kGroups,
    1,
    run_run};

}  // namespace ztplan
