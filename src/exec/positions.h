// Which tokens of a sequence each context rank has.
#pragma once

#include <cstdint>
#include <vector>

#include "strategy/strategy.h"

namespace ztplan {

/// Positions of context rank `rank`, in the order of its rows: a run of the
/// sequence; under a ring one early and one late run, so that a causal mask
/// costs all ranks alike (Megatron-LM, core/utils.py,
/// get_batch_on_this_cp_rank). Requires that the sequence divides so.
std::vector<std::int32_t> context_positions(const Strategy& strategy,
                                            int sequence, int rank);

}  // namespace ztplan
