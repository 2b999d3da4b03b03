// The order in which one stage runs forwards and backwards.
// Sources: GPipe arXiv 1811.06965; 1F1B and interleaved arXiv 2104.04473 and
// Megatron-LM core/pipeline_parallel/schedules.py.
#pragma once

#include <vector>

#include "step/work.h"
#include "strategy/strategy.h"

namespace ztplan {

/// One forward or backward of one chunk of one micro-batch.
struct Pass {
  Direction direction = Direction::forward;
  int micro_batch = 0;
  int chunk = 0;
  auto operator<=>(const Pass&) const = default;
};

/// All passes of stage `stage` in order: 2 * micro_batches * virtual_stages.
/// Interleaved requires micro_batches to be a multiple of pipeline.
std::vector<Pass> schedule(const Strategy& strategy, int stage,
                           int micro_batches);

/// Forwards of `stage` before its first backward, in passes.
int warm_up_passes(const Strategy& strategy, int stage, int micro_batches);

}  // namespace ztplan
