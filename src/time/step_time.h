// Where a step's time goes: terms that add up, of the stage that works longest.
#pragma once

#include <array>
#include <vector>

#include "strategy/ledger.h"
#include "time/simulate.h"

namespace ztplan {

/// Exposed seconds by term; they add up to the step.
struct StepTime {
  std::array<Seconds, kTimeTerms> terms{};
  int stage = 0;  // the busiest, whose terms these are
  Seconds total() const;
  Seconds operator[](TimeTerm term) const {
    return terms[static_cast<std::size_t>(term)];
  }
};

/// Of a simulated or measured timeline. What a stage waits for is charged to
/// the term of the task it waits for, and to `bubble` when that is another
/// stage's compute.
StepTime break_down(const StepGraph& graph, const PriceList& prices,
                    const Timeline& timeline);

/// When each task runs. Ranks of an executed engine on shared cores take turns,
/// all others run as lanes do.
Timeline run_tasks(const StepGraph& graph, const PriceList& prices,
                   const Engine& engine, const Strategy& strategy,
                   const Machine& machine);

/// The whole step: build, price, simulate, break down. A steady state of equal
/// micro-batches is walked until it repeats and then continued, exactly. Ranks
/// that share cores are walked to the end.
StepTime estimate_step(const Setting& setting, const Engine& engine,
                       const Strategy& strategy, const Machine& machine);

}  // namespace ztplan
