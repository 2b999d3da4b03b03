// The order in which one stage runs the passes of its chunks.
// Sources: GPipe arXiv 1811.06965; 1F1B and interleaved arXiv 2104.04473 and
// Megatron-LM core/pipeline_parallel/schedules.py; zero bubble arXiv 2401.10241
// and torch distributed/pipelining/schedules.py.
#pragma once

#include <vector>

#include "strategy/strategy.h"

namespace ztplan {

/// Forward; backward whole, or in two: the gradients of a chunk's inputs, which
/// the stage before waits for, and those of its weights, which may come later.
enum class PassPart { forward, backward, inputs, weights };

/// One part of one chunk of one micro-batch.
struct Pass {
  PassPart part = PassPart::forward;
  int micro_batch = 0;
  int chunk = 0;
  auto operator<=>(const Pass&) const = default;
};

/// Whether a schedule runs the gradients of weights on their own.
bool splits_backward(Schedule schedule);

/// Whether stages send beside compute; 1F1B and GPipe wait for the send.
/// Source: Megatron-LM schedules.py (overlap_p2p_comm needs VPP); zero-bubble
/// runtimes receive ahead: sail-sg/zero-bubble-pipeline-parallelism,
/// megatron/core/pipeline_parallel/zerobubble/runtime.py.
bool sends_beside(Schedule schedule);

/// All passes of stage `stage` in order. Each chunk of each micro-batch runs
/// once forward and once backward, whole or in two parts. Interleaved chunks
/// require micro_batches to be a multiple of pipeline.
std::vector<Pass> schedule(const Strategy& strategy, int stage,
                           int micro_batches);

/// Forwards of `stage` before its first backward, in passes.
int warm_up_passes(const Strategy& strategy, int stage, int micro_batches);

}  // namespace ztplan
