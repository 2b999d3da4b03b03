#include "strategy/schedule.h"

#include <algorithm>
#include <array>

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

/// Writes the passes of one stage of a V: of each chunk, micro-batches in
/// order.
class VOrder {
 public:
  explicit VOrder(int micro_batches) : micro_batches_(micro_batches) {}

  int forwards(int chunk) const {
    return next_[0][static_cast<std::size_t>(chunk)];
  }
  void forward(int chunk) { add(PassPart::forward, chunk, 0); }
  void whole(int chunk) { add(PassPart::backward, chunk, 1); }
  void inputs(int chunk) {
    add(PassPart::inputs, chunk, 1);
    waiting_.push_back(order_.back());
  }
  /// Weights of the inputs that have waited longest.
  void weights() {
    Pass pass = waiting_.at(done_++);
    pass.part = PassPart::weights;
    order_.push_back(pass);
  }

  /// Without the passes of micro-batches that there are not.
  std::vector<Pass> take() && {
    std::erase_if(order_, [&](const Pass& pass) {
      return pass.micro_batch >= micro_batches_;
    });
    return std::move(order_);
  }

 private:
  void add(PassPart part, int chunk, std::size_t way) {
    order_.push_back(
        {part, next_[way][static_cast<std::size_t>(chunk)]++, chunk});
  }

  int micro_batches_;
  std::array<std::array<int, 2>, 2> next_{};  // [forward or back][chunk]
  std::vector<Pass> order_, waiting_;
  std::size_t done_ = 0;
};

/// Source: torch schedules.py, ScheduleZBVZeroBubble; here weights run in the
/// order of their inputs while the pipeline drains.
std::vector<Pass> zero_bubble_v(int stages, int stage, int micro_batches) {
  const int counted = std::max(2 * stages - 1, micro_batches);
  const int after = stages - stage;
  VOrder v(micro_batches);
  const auto back = [&](int chunk) {
    v.inputs(chunk);
    v.weights();
  };
  for (int i = 0; i < 2 * after - 1; ++i) v.forward(0);
  for (int i = 0; i < stage; ++i) {
    v.forward(1);
    v.forward(0);
  }
  for (int i = 0; i < after; ++i) {
    v.forward(1);
    back(1);
  }
  while (v.forwards(1) < counted) {
    if (v.forwards(0) < counted) v.forward(0);
    back(0);
    v.forward(1);
    back(1);
  }
  for (int i = 0; i < stage; ++i) {
    v.inputs(0);
    v.inputs(1);
  }
  for (int i = 0; i < after; ++i) back(0);
  for (int i = 0; i < 2 * stage; ++i) v.weights();
  return std::move(v).take();
}

/// Sources: deepseek-ai/DualPipe, dualpipe/dualpipev.py; torch schedules.py,
/// ScheduleDualPipeV. Requires micro_batches >= 2 stages.
std::vector<Pass> dualpipe_v(int stages, int stage, int micro_batches) {
  require(micro_batches >= 2 * stages, "DualPipeV fills a V of its chunks");
  const int after = stages - stage - 1;
  VOrder v(micro_batches);
  for (int i = 0; i < 2 * after; ++i) v.forward(0);
  for (int i = 0; i <= stage; ++i) {
    v.forward(0);
    v.forward(1);
  }
  for (int i = 0; i < after; ++i) {
    v.inputs(1);
    v.weights();
    v.forward(1);
  }
  const auto turn = [&] {
    v.whole(1);
    v.forward(1);
    v.whole(0);
  };
  for (int i = 0; i < micro_batches - 2 * stages + stage + 1; ++i) {
    v.forward(0);
    turn();
  }
  for (int i = 0; i < after; ++i) turn();
  // The second half of these backwards are split.
  for (int i = 0; i < 2 * (stage + 1); ++i) {
    const int chunk = i % 2 == 0 ? 1 : 0;
    i <= stage ? v.whole(chunk) : v.inputs(chunk);
  }
  for (int i = 0; i < after; ++i) {
    v.weights();
    v.inputs(0);
  }
  for (int i = 0; i <= stage; ++i) v.weights();
  return std::move(v).take();
}

}  // namespace

bool splits_backward(Schedule schedule) {
  return sends_beside(schedule) && schedule != Schedule::interleaved;
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
    case Schedule::zb_v:
    case Schedule::dualpipe_v:
      return std::min(2 * strategy.pipeline, passes);
  }
  return passes;
}

std::vector<Pass> schedule(const Strategy& strategy, int stage,
                           int micro_batches) {
  if (strategy.schedule == Schedule::zb_v)
    return zero_bubble_v(strategy.pipeline, stage, micro_batches);
  if (strategy.schedule == Schedule::dualpipe_v)
    return dualpipe_v(strategy.pipeline, stage, micro_batches);
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
