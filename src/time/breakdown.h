// Charges every second of a stage's compute lane to a term: its own work, or
// what it waited for.
#pragma once

#include <array>
#include <span>

#include "time/simulate.h"

namespace ztplan {

using TermSeconds = std::array<Seconds, kTimeTerms>;

/// The stage whose compute lane works longest, the first of equals.
int busiest_stage(const StepGraph& graph, const PriceList& prices);

/// Seconds of `stage` from the end of the compute task before `first` to the
/// end of `last`'s, task ids of one stage's compute lane in [first, last).
TermSeconds charge(const StepGraph& graph, const PriceList& prices,
                   const Timeline& timeline, int stage, TaskId first,
                   TaskId last);

/// All of the step: the tasks of `stage`, then the wait for the last task.
TermSeconds charge_step(const StepGraph& graph, const PriceList& prices,
                        const Timeline& timeline, int stage);

}  // namespace ztplan
