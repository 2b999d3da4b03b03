// The strategy and numbers of a measured run, from its cells.
#pragma once

#include <string_view>

#include "base/csv.h"
#include "strategy/strategy.h"

namespace ztplan {

/// Throws `Skip` for what a strategy cannot say yet: activation offload, parts
/// of the optimizer offloaded, MLP recomputation, ...
/// Missing cells: sizes are 1; dp is what the GPUs leave; micro-batch is 1;
/// sequence parallelism is on with tensor parallelism; ZeRO is 3 for a
/// sharding flavour, else 0; `recompute` is what its cell would say; nothing is
/// offloaded. ZeRO 2 under a pipeline is stage 1: gradients are kept whole
/// until the last micro-batch.
Strategy strategy_of_run(const CsvRow& row, int layers,
                         std::string_view recompute);

/// Sequence, batch, precision and attention. `eager` is what an empty
/// attention cell means. Missing: the batch is dp * micro-batch, the precision
/// bf16, the sequence `sequence`.
Workload workload_of_run(const CsvRow& row, const Strategy& strategy,
                         int sequence, AttentionKernel attention);

}  // namespace ztplan
