#include "strategy/schedule.h"

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
  return {PassPart::forward, round * p + in_round % p, in_round / p};
}

Pass backward_pass(const Strategy& strategy, PassPart part, int k) {
  Pass pass = forward_pass(strategy, k);
  pass.part = part;
  pass.chunk = strategy.virtual_stages - 1 - pass.chunk;
  return pass;
}

/// Backwards after which the weights of the first one run. ZB-H1 holds as many
/// micro-batches on every stage as 1F1B does on the first, `pipeline`; ZB-H2
/// about twice as many. Source: arXiv 2401.10241, section 2.
int weights_lag(const Strategy& strategy, int stage) {
  if (strategy.schedule == Schedule::zb_h1) return stage;
  if (strategy.schedule == Schedule::zb_h2) return 2 * stage;
  return 0;
}

}  // namespace

bool splits_backward(Schedule schedule) {
  return schedule == Schedule::zb_h1 || schedule == Schedule::zb_h2;
}

bool sends_beside(Schedule schedule) {
  return schedule != Schedule::gpipe && schedule != Schedule::one_f_one_b;
}

// Sources: Megatron-LM schedules.py, get_pp_rank_microbatches; ZB-H1 with
// several chunks: torch schedules.py, ScheduleInterleavedZeroBubble; ZB-H2:
// arXiv 2401.10241, figure 3.
int warm_up_passes(const Strategy& strategy, int stage, int micro_batches) {
  const int passes = micro_batches * strategy.virtual_stages;
  const int after = strategy.pipeline - stage - 1;
  const int chunks_ahead = (strategy.virtual_stages - 1) * strategy.pipeline;
  switch (strategy.schedule) {
    case Schedule::gpipe:
      return passes;
    case Schedule::one_f_one_b:
    case Schedule::zb_h1:
      return std::min(after + chunks_ahead, passes);
    case Schedule::interleaved:
    case Schedule::zb_h2:
      return std::min(2 * after + chunks_ahead, passes);
  }
  return passes;
}

std::vector<Pass> schedule(const Strategy& strategy, int stage,
                           int micro_batches) {
  require(
      strategy.virtual_stages == 1 || micro_batches % strategy.pipeline == 0,
      "interleaved stages take micro-batches in rounds of the pipeline");
  const bool splits = splits_backward(strategy.schedule);
  const PassPart back = splits ? PassPart::inputs : PassPart::backward;
  const int passes = micro_batches * strategy.virtual_stages;
  const int ahead = warm_up_passes(strategy, stage, micro_batches);
  const int lag = weights_lag(strategy, stage);
  std::vector<Pass> order;
  order.reserve((splits ? 3 : 2) * static_cast<std::size_t>(passes));
  const auto weights = [&](int k) {
    if (splits && k >= 0 && k < passes)
      order.push_back(backward_pass(strategy, PassPart::weights, k));
  };
  for (int k = 0; k < passes + ahead; ++k) {
    if (k < passes) order.push_back(forward_pass(strategy, k));
    if (k < ahead) continue;
    order.push_back(backward_pass(strategy, back, k - ahead));
    weights(k - ahead - lag);
  }
  for (int k = passes - lag; k < passes; ++k) weights(k);
  return order;
}

}  // namespace ztplan
