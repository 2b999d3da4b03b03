// Model + strategy + engine -> the graph of one step: passes in schedule order,
// sends, ZeRO gathers and reductions, offload, optimizer.
#pragma once

#include <vector>

#include "step/layer_work.h"
#include "step/step_graph.h"
#include "strategy/ledger.h"

namespace ztplan {

/// The step with `micro_batches` micro-batches: micro_batches(strategy,
/// workload), or fewer where the caller continues a steady state.
StepGraph build_step(const Setting& setting, const Engine& engine,
                     const Strategy& strategy, int micro_batches);

}  // namespace ztplan
