// A step of many equal micro-batches settles into a rhythm. Walked until every
// task of every stage repeats, it can be continued exactly: a max-plus linear
// system whose state has only shifted in time will go on shifting.
#pragma once

#include <optional>

#include "time/breakdown.h"

namespace ztplan {

/// Micro-batches after which a schedule's passes repeat: 1, or a round of the
/// pipeline when stages interleave.
int rhythm(const Strategy& strategy);

/// Fewest micro-batches at which `find_rhythm` can find anything.
int shortest_walk(const Strategy& strategy);

/// One period of the steady state.
struct Rhythm {
  Seconds period;     // by which every task of every stage is later
  TermSeconds terms;  // of `stage` in one period; they add up to it
};

/// Empty when the last two full periods of a step of `micro_batches` do not
/// repeat. Never repeats under GPipe, where stages drift apart.
std::optional<Rhythm> find_rhythm(const StepGraph& graph,
                                  const PriceList& prices,
                                  const Timeline& timeline,
                                  const Strategy& strategy, int micro_batches,
                                  int stage);

}  // namespace ztplan
