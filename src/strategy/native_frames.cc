#include "strategy/native_frames.h"

#include <algorithm>

#include "strategy/layer_memory.h"
#include "strategy/schedule.h"

namespace ztplan {
namespace {

constexpr std::int64_t kFp32 = 4;   // bytes
constexpr std::int64_t kIndex = 4;  // bytes of a token, a place, an expert

// Rows of experts beyond an even split that there is room for, in percent:
// Switch Transformers, arXiv 2101.03961, section 2.2 (capacity factor 1.25).
constexpr std::int64_t kUsualLoad = 125, kPercent = 100;

std::int64_t expert_rows(const Strategy& s, std::int64_t chosen) {
  if (s.expert == 1) return chosen;
  const std::int64_t load = s.tuning.load.value_or(kUsualLoad);
  return std::min(divide_up(chosen * load, kPercent), chosen * s.expert);
}

struct Context {
  NativeSizes n;
  bool layer_norm, gathers, eager, moe, ring, ulysses, defers;
  std::int64_t sequence;
  Recompute drops;  // within the layer
  std::int64_t per_stream(std::int64_t elements) const {
    return n.stream * elements * n.number;
  }
  std::int64_t per_token(std::int64_t elements) const {
    return n.tokens * elements * n.number;
  }
  std::int64_t log_sums() const { return n.tokens * n.heads * kFp32; }
  std::int64_t scores() const {
    return eager ? n.tokens * n.heads * sequence * n.number : 0;
  }
};

Context context_of(const ModelSpec& model, const Layer& layer,
                   const Workload& w, const Strategy& s) {
  const bool cut = s.context > 1;
  return {native_sizes(model, layer, w, s),
          model.norm == Norm::layer,
          s.sequence_parallel && s.tensor > 1,
          w.attention == AttentionKernel::eager,
          layer.ffn.is_moe(),
          cut && s.context_kind == ContextKind::ring,
          cut && s.context_kind == ContextKind::ulysses,
          splits_backward(s.schedule),
          w.sequence,
          s.recompute.mode == Recompute::Mode::selective ? s.recompute
                                                         : Recompute{}};
}

/// Of one norm: its statistics and, unless it is recomputed, its output.
void save_norm(const Context& c, Saved mean, Saved rstd, Saved normed,
               SavedFrame& frame) {
  if (c.layer_norm) frame.hold(mean, c.n.stream * kFp32);
  frame.hold(rstd, c.n.stream * kFp32);
  if (!c.drops.norms) frame.hold(normed, c.per_stream(c.n.hidden));
}

void save_attention(const Context& c, SavedFrame& frame) {
  frame.hold(Saved::projected, c.per_token(c.n.projected()));
  if (c.ulysses) {
    frame.hold(Saved::traded, c.per_token(c.n.projected()));
    frame.hold(Saved::traded_out, c.per_token(c.n.query()));
  }
  frame.hold(Saved::attended, c.per_token(c.n.query()));
  if (c.drops.attention) return;
  frame.hold(Saved::log_sum, c.log_sums());
  frame.hold(Saved::scores, c.scores());
}

void save_mlp(const Context& c, SavedFrame& frame) {
  if (c.n.width == 0) return;
  frame.hold(Saved::up, c.per_token(c.n.up()));
  if (!c.drops.activation) frame.hold(Saved::activated, c.per_token(c.n.width));
}

void save_experts(const Context& c, int expert_ranks, SavedFrame& frame) {
  const NativeSizes& n = c.n;
  frame.hold(Saved::router, n.stream * n.experts * kFp32);
  frame.hold(Saved::chosen, n.chosen * kIndex);
  frame.hold(Saved::weights, n.chosen * kFp32);
  frame.hold(Saved::counts, expert_ranks * n.experts * kIndex);
  frame.hold(Saved::balance, n.experts * kFp32);
  frame.hold(Saved::source, n.chosen * kIndex);
  frame.hold(Saved::slot, n.chosen * kIndex);
  frame.hold(Saved::sent_weights, n.chosen * kFp32);
  frame.hold(Saved::arrival, n.rows * kIndex);
  frame.hold(Saved::expert_in, n.rows * n.hidden * n.number);
  frame.hold(Saved::expert_up, n.rows * n.expert_up() * n.number);
  if (!c.drops.activation)
    frame.hold(Saved::expert_activated, n.rows * n.expert_width * n.number);
  frame.hold(Saved::returned, n.chosen * n.hidden * n.number);
}

void save_output_gradients(const Context& c, SavedFrame& frame) {
  frame.hold(Saved::attended_gradient, c.per_token(c.n.hidden));
  if (c.n.width > 0) frame.hold(Saved::down_gradient, c.per_token(c.n.hidden));
}

/// What is dropped is made here again.
void scratch_dropped(const Context& c, ScratchFrame& frame) {
  if (c.drops.norms) frame.hold(Scratch::normed, c.per_stream(c.n.hidden));
  if (c.drops.activation) {
    frame.hold(Scratch::activated, c.per_token(c.n.width));
    if (c.moe)
      frame.hold(Scratch::expert_activated,
                 c.n.rows * c.n.expert_width * c.n.number);
  }
  if (!c.drops.attention) return;
  frame.hold(Scratch::log_sum, c.log_sums());
  frame.hold(Scratch::scores, c.scores());
}

void scratch_ring(const Context& c, ScratchFrame& frame) {
  const std::int64_t block = c.per_token(2 * c.n.key());
  frame.hold(Scratch::key_value, block);
  frame.hold(Scratch::next_key_value, block);
  frame.hold(Scratch::query_sum, c.n.tokens * c.n.query() * kFp32);
}

/// What a block of keys gives, before it is merged.
void scratch_part(const Context& c, ScratchFrame& frame) {
  frame.hold(Scratch::part, c.n.tokens * c.n.query() * kFp32);
  frame.hold(Scratch::part_sum, c.log_sums());
}

void scratch_ulysses(const Context& c, ScratchFrame& frame) {
  frame.hold(Scratch::packed, c.per_token(c.n.projected()));
  frame.hold(Scratch::unpacked, c.per_token(c.n.projected()));
}

void scratch_experts(const Context& c, ScratchFrame& frame) {
  const NativeSizes& n = c.n;
  frame.hold(Scratch::logits, n.stream * n.experts * n.number);
  frame.hold(Scratch::balance, n.experts * kFp32);
  frame.hold(Scratch::rows_out, n.chosen * n.hidden * n.number);
  frame.hold(Scratch::rows_in, n.rows * n.hidden * n.number);
  frame.hold(Scratch::expert_rows, n.rows * n.hidden * n.number);
}

}  // namespace

NativeSizes native_sizes(const ModelSpec& model, const Layer& layer,
                         const Workload& w, const Strategy& s) {
  const Attention& a = layer.attention;
  const FeedForward& f = layer.ffn;
  NativeSizes n;
  n.sequences = s.micro_batch;
  n.tokens = divide_up(std::int64_t{s.micro_batch} * w.sequence, s.context);
  n.stream = s.sequence_parallel ? divide_up(n.tokens, s.tensor) : n.tokens;
  n.hidden = model.hidden;
  n.heads = divide_up(a.heads, s.tensor);
  n.kv_heads = divide_up(a.kv_heads, s.tensor);
  n.head_size = a.head_size;
  n.width = divide_up(f.is_moe() ? f.shared_width : f.width, s.tensor);
  n.gated = f.gated;
  n.number = activation_bytes(w.precision);
  if (!f.is_moe()) return n;
  n.experts = f.experts;
  n.local_experts = divide_up(f.experts, s.expert);
  n.top_k = f.top_k;
  n.expert_width = f.expert_width;
  n.chosen = n.stream * n.top_k;
  n.rows = expert_rows(s, n.chosen);
  return n;
}

SavedFrame saved_frame(const ModelSpec& model, const Layer& layer,
                       const Workload& w, const Strategy& s) {
  const Context c = context_of(model, layer, w, s);
  SavedFrame frame;
  frame.hold(Saved::input, c.per_stream(c.n.hidden));
  save_norm(c, Saved::mean1, Saved::rstd1, Saved::normed1, frame);
  save_attention(c, frame);
  frame.hold(Saved::middle, c.per_stream(c.n.hidden));
  save_norm(c, Saved::mean2, Saved::rstd2, Saved::normed2, frame);
  save_mlp(c, frame);
  if (c.moe) save_experts(c, s.expert, frame);
  if (c.defers) save_output_gradients(c, frame);
  return frame;
}

ScratchFrame forward_scratch(const ModelSpec& model, const Layer& layer,
                             const Workload& w, const Strategy& s) {
  const Context c = context_of(model, layer, w, s);
  ScratchFrame frame;
  if (c.gathers || c.moe) frame.hold(Scratch::wide, c.per_token(c.n.hidden));
  scratch_dropped(c, frame);
  if (c.ring) {
    scratch_ring(c, frame);
    scratch_part(c, frame);
  }
  if (c.ulysses) scratch_ulysses(c, frame);
  if (c.moe) scratch_experts(c, frame);
  return frame;
}

ScratchFrame backward_scratch(const ModelSpec& model, const Layer& layer,
                              const Workload& w, const Strategy& s) {
  const Context c = context_of(model, layer, w, s);
  ScratchFrame frame;
  frame.hold(Scratch::wide, c.per_token(c.n.hidden));
  scratch_dropped(c, frame);
  frame.hold(Scratch::attended, c.per_token(c.n.query()));
  frame.hold(Scratch::projected, c.per_token(c.n.projected()));
  if (c.defers) frame.hold(Scratch::activated_gradient, c.per_token(c.n.width));
  frame.hold(Scratch::delta, c.log_sums());
  if (c.ring) {
    scratch_ring(c, frame);
    frame.hold(Scratch::key_value_gradient, c.per_token(2 * c.n.key()));
    frame.hold(Scratch::next_key_value_gradient, c.per_token(2 * c.n.key()));
    if (c.drops.attention) scratch_part(c, frame);
  }
  if (c.ulysses) {
    scratch_ulysses(c, frame);
    frame.hold(Scratch::traded_gradient, c.per_token(c.n.query()));
  }
  if (c.moe) {
    scratch_experts(c, frame);
    frame.hold(Scratch::weight_gradients, c.n.chosen * kFp32);
    frame.hold(Scratch::slot_gradients, c.n.chosen * kFp32);
  }
  return frame;
}

HeadFrame head_frame(const ModelSpec& model, const Workload& w,
                     const Strategy& s) {
  const NativeSizes n = native_sizes(model, Layer{}, w, s);
  HeadFrame frame;
  frame.hold(HeadSaved::input, n.stream * n.hidden * n.number);
  if (model.norm == Norm::layer) frame.hold(HeadSaved::mean, n.stream * kFp32);
  frame.hold(HeadSaved::rstd, n.stream * kFp32);
  frame.hold(HeadSaved::normed, n.stream * n.hidden * n.number);
  frame.hold(HeadSaved::targets, n.tokens * kIndex);
  frame.hold(HeadSaved::maximum, n.tokens * kFp32);
  frame.hold(HeadSaved::sum, n.tokens * kFp32);
  frame.hold(HeadSaved::target_logit, n.tokens * kFp32);
  return frame;
}

Bytes logits_bytes(const ModelSpec& model, const Workload& w, const Strategy& s,
                   std::int64_t padded_vocab) {
  const NativeSizes n = native_sizes(model, Layer{}, w, s);
  return {n.tokens * divide_up(padded_vocab, s.tensor) * n.number};
}

Bytes end_scratch(const ModelSpec& model, const Workload& w,
                  const Strategy& s) {
  const NativeSizes n = native_sizes(model, Layer{}, w, s);
  return {n.tokens * n.hidden * n.number};
}

Bytes token_bytes(const Workload& w, const Strategy& s) {
  return {divide_up(std::int64_t{s.micro_batch} * w.sequence, s.context) *
          kIndex};
}

}  // namespace ztplan
