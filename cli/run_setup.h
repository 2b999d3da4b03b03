// `run` before its first step and after its last: flags as what is to be done,
// and what was done as the answer.
#pragma once

#include <chrono>
#include <functional>

#include "cli/command.h"
#include "cli/one_plan.h"
#include "exec/training.h"

namespace ztplan {

/// All that is known before the first step.
struct RunSetup {
  Judged judged;
  TrainingOptions options;
  Samples samples;
  double tolerance;
};

/// Throws `Error`, or `Illegal` where the executor refuses the strategy. Learns
/// byte pairs where their file is not there.
RunSetup set_up_run(const Flags& flags);
/// For ranks that do not come. Throws `Error`.
std::chrono::milliseconds patience_of(const Flags& flags);

bool fits(const RunSetup& setup);
/// Says that it does not.
Exit refuse_to_fit(const RunSetup& setup);

/// Refers to the setup.
TrainingJob job_of(const RunSetup& setup);
void print_start(const RunSetup& setup, const Console& console);
/// Refers to both.
std::function<void(const StepReport&)> step_printer(const RunSetup& setup,
                                                    const Console& console);
/// The end of the answer, and the trace where one was asked.
Exit conclude(const RunSetup& setup, const TrainingOutcome& outcome,
              const Flags& flags, const Console& console);

}  // namespace ztplan
