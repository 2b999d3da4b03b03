#include "step/schedule.h"

#include <algorithm>

#include "base/error.h"

namespace ztplan {
namespace {

/// The k-th forward in execution order. Interleaved stages take `pipeline`
/// micro-batches through chunk 0, then the same ones through chunk 1, ...
Pass forward_pass(const Strategy& strategy, int k) {
  const int p = strategy.pipeline;
  const int round = k / (p * strategy.virtual_stages);
  const int in_round = k % (p * strategy.virtual_stages);
  return {Direction::forward, round * p + in_round % p, in_round / p};
}

Pass backward_pass(const Strategy& strategy, int k) {
  Pass pass = forward_pass(strategy, k);
  pass.direction = Direction::backward;
  pass.chunk = strategy.virtual_stages - 1 - pass.chunk;
  return pass;
}

}  // namespace

// Source: Megatron-LM schedules.py, get_pp_rank_microbatches.
int warm_up_passes(const Strategy& strategy, int stage, int micro_batches) {
  const int passes = micro_batches * strategy.virtual_stages;
  const int p = strategy.pipeline;
  if (strategy.schedule == Schedule::gpipe) return passes;
  if (strategy.schedule == Schedule::one_f_one_b)
    return std::min(p - stage - 1, passes);
  const int ahead = 2 * (p - stage - 1) + (strategy.virtual_stages - 1) * p;
  return std::min(ahead, passes);
}

std::vector<Pass> schedule(const Strategy& strategy, int stage,
                           int micro_batches) {
  const bool interleaved = strategy.schedule == Schedule::interleaved;
  require(!interleaved || micro_batches % strategy.pipeline == 0,
          "interleaved stages take micro-batches in rounds of the pipeline");
  const int passes = micro_batches * strategy.virtual_stages;
  const int ahead = warm_up_passes(strategy, stage, micro_batches);
  std::vector<Pass> order;
  order.reserve(2 * static_cast<std::size_t>(passes));
  for (int k = 0; k < ahead; ++k) order.push_back(forward_pass(strategy, k));
  for (int k = ahead; k < passes; ++k) {
    order.push_back(forward_pass(strategy, k));
    order.push_back(backward_pass(strategy, k - ahead));
  }
  for (int k = passes - ahead; k < passes; ++k)
    order.push_back(backward_pass(strategy, k));
  return order;
}

}  // namespace ztplan
