#include <algorithm>
#include <boost/container/small_vector.hpp>

#include "strategy/capped.h"
#include "strategy/recomputed.h"
#include "strategy/schedule.h"
#include "strategy/stage_holdings.h"

namespace ztplan {
namespace {

constexpr const char* kKorthikanti = "arXiv 2205.05198, section 4";

/// What one micro-batch leaves in a chunk, and the most its backward adds.
struct ChunkActivations {
  std::int64_t saved = 0;        // of layers that keep everything
  std::int64_t checkpoints = 0;  // of layers that keep their input
  std::int64_t embedding = 0;    // token ids and dropout
  std::int64_t pending = 0;      // of split backwards, until their weights
  std::int64_t working = 0;      // above all
  std::int64_t kept() const { return saved + checkpoints + embedding; }
  std::int64_t all() const { return kept() + pending; }
  auto operator<=>(const ChunkActivations&) const = default;
};

/// Takes checkpointed layers from the kinds that save least, so that the
/// estimate does not depend on where in the chunk they are.
class CheckpointSplit {
 public:
  CheckpointSplit(const StageSizes& sizes, const ChunkShape& chunk, int count)
      : sizes_(sizes), chunk_(chunk), count_(count) {}

  int of_kind(std::size_t kind) const {
    int lighter = 0;
    for (std::size_t other = 0; other < chunk_.layers_of_kind.size(); ++other) {
      if (is_lighter(other, kind)) lighter += chunk_.layers_of_kind[other];
    }
    return std::clamp(count_ - lighter, 0, chunk_.layers_of_kind[kind]);
  }

 private:
  bool is_lighter(std::size_t a, std::size_t b) const {
    const Bytes one = sizes_.activations[a].saved;
    const Bytes two = sizes_.activations[b].saved;
    return one != two ? one < two : a < b;
  }

  const StageSizes& sizes_;
  const ChunkShape& chunk_;
  int count_;
};

/// Backward meets the layers that kept everything first; they are gone when
/// the others are rebuilt.
std::int64_t working_bytes(const StageSizes& sizes, const ChunkShape& chunk,
                           const CheckpointSplit& split, std::int64_t saved) {
  std::int64_t working = 0;
  for (std::size_t kind = 0; kind < chunk.layers_of_kind.size(); ++kind) {
    const int layers = chunk.layers_of_kind[kind];
    if (layers == 0) continue;
    const LayerActivations& one = sizes.activations[kind];
    const int checkpointed = split.of_kind(kind);
    if (checkpointed < layers) working = std::max(working, one.working.value);
    const std::int64_t rebuilt =
        (one.saved - one.checkpoint + one.working).value - saved;
    if (checkpointed > 0) working = std::max(working, rebuilt);
  }
  return working;
}

/// What the weights of a chunk wait with. It replaces what was saved layer by
/// layer; where it is more, the last layer works above it.
void defer(const StageSizes& sizes, const ChunkShape& chunk,
           ChunkActivations& sum) {
  for (std::size_t kind = 0; kind < chunk.layers_of_kind.size(); ++kind)
    sum.pending = capped_sum(sum.pending, chunk.layers_of_kind[kind],
                             sizes.activations[kind].pending.value);
  if (chunk.has_embedding) sum.pending += sizes.ends.embedding_pending.value;
  if (chunk.has_head) sum.pending += sizes.ends.head_pending.value;
  sum.working += std::max<std::int64_t>(0, sum.pending - sum.kept());
}

ChunkActivations chunk_activations(const StageSizes& sizes,
                                   const ChunkShape& chunk,
                                   const Strategy& strategy) {
  const CheckpointSplit split(sizes, chunk, recomputed_layers(strategy, chunk));
  ChunkActivations sum;
  for (std::size_t kind = 0; kind < chunk.layers_of_kind.size(); ++kind) {
    const LayerActivations& one = sizes.activations[kind];
    const std::int64_t checkpointed = split.of_kind(kind);
    const std::int64_t kept = chunk.layers_of_kind[kind] - checkpointed;
    sum.checkpoints =
        capped_sum(sum.checkpoints, checkpointed, one.checkpoint.value);
    sum.saved = capped_sum(sum.saved, kept, one.saved.value);
  }
  if (chunk.has_embedding) sum.embedding = sizes.ends.embedding.value;
  if (sizes.workspace == Bytes{})
    sum.working = working_bytes(sizes, chunk, split, sum.saved);
  if (splits_backward(strategy.schedule)) defer(sizes, chunk, sum);
  return sum;
}

/// How many micro-batches of each chunk of an interleaved stage are held, once
/// `in_flight` forwards have run and forwards and backwards take turns.
/// Forwards take `pipeline` micro-batches through chunk 0, then through chunk
/// 1, ...; backwards likewise from the last chunk down.
/// Source: Megatron-LM, core/pipeline_parallel/schedules.py.
class ChunkTurns {
 public:
  ChunkTurns(const Place& p, std::int64_t in_flight)
      : group_(p.strategy.pipeline),
        chunks_(p.strategy.virtual_stages),
        in_flight_(in_flight),
        turns_(std::min(round(), p.micro_batches * chunks_ - in_flight)) {}

  std::int64_t group() const { return group_; }
  std::int64_t in_flight() const { return in_flight_; }
  /// Turns until the pattern repeats or the forwards are over.
  std::int64_t turns() const { return turns_; }

  std::int64_t held(std::int64_t chunk, std::int64_t turn) const {
    return passes(chunk, in_flight_ + turn) - passes(chunks_ - 1 - chunk, turn);
  }

 private:
  std::int64_t round() const { return group_ * chunks_; }

  /// Of the first `count` passes, those of the chunk that is `order`-th.
  std::int64_t passes(std::int64_t order, std::int64_t count) const {
    const std::int64_t rest = count % round() - order * group_;
    return count / round() * group_ + std::clamp<std::int64_t>(rest, 0, group_);
  }

  std::int64_t group_, chunks_, in_flight_, turns_;
};

using Chunks = boost::container::small_vector<ChunkActivations, 16>;

Chunks chunks_of(const Place& p) {
  Chunks chunks;
  for (const ChunkShape& chunk : p.shape.chunks)
    chunks.push_back(chunk_activations(p.sizes, chunk, p.strategy));
  return chunks;
}

ChunkActivations held_at(const Chunks& chunks, const ChunkTurns& turns,
                         std::int64_t turn) {
  ChunkActivations sum;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const std::int64_t copies = turns.held(static_cast<std::int64_t>(i), turn);
    sum.saved = capped_sum(sum.saved, copies, chunks[i].saved);
    sum.checkpoints =
        capped_sum(sum.checkpoints, copies, chunks[i].checkpoints);
    sum.embedding = capped_sum(sum.embedding, copies, chunks[i].embedding);
    sum.working = std::max(sum.working, chunks[i].working);
  }
  return sum;
}

bool are_equal(const Chunks& chunks) {
  return std::ranges::all_of(chunks, [&](const ChunkActivations& chunk) {
    return chunk == chunks.front();
  });
}

/// `copies` micro-batches of a chunk, one of them in backward.
ChunkActivations repeated(ChunkActivations chunk, std::int64_t copies) {
  chunk.saved = capped_product(copies, chunk.saved);
  chunk.checkpoints = capped_product(copies, chunk.checkpoints);
  chunk.embedding = capped_product(copies, chunk.embedding);
  return chunk;
}

/// At the fullest turn: what is held grows and shrinks evenly between turns at
/// which a chunk's forwards or backwards begin or end.
ChunkActivations stage_activations(const Place& p, std::int64_t in_flight) {
  const Chunks chunks = chunks_of(p);
  if (are_equal(chunks)) return repeated(chunks.front(), in_flight);
  const ChunkTurns turns(p, in_flight);
  ChunkActivations fullest = held_at(chunks, turns, 0);
  const auto consider = [&](std::int64_t turn) {
    const ChunkActivations held = held_at(chunks, turns, turn);
    if (held.kept() > fullest.kept()) fullest = held;
  };
  const std::int64_t group = turns.group();
  for (std::int64_t turn = group; turn < turns.turns(); turn += group)
    consider(turn);
  for (std::int64_t turn = group - in_flight % group; turn < turns.turns();
       turn += group)
    consider(turn);
  consider(turns.turns());
  return fullest;
}

/// Micro-batches whose loss has run and whose backward has not: one, but under
/// GPipe all of them.
std::int64_t losses_waiting(const Place& p) {
  return p.strategy.schedule == Schedule::gpipe ? p.micro_batches : 1;
}

void hold_passes(const Place& p, const ChunkActivations& bytes, Ledger& book) {
  hold(book, on_device(Term::activations, bytes.saved, kPasses,
                       "saved activations", kKorthikanti));
  hold(book, on_device(Term::activations, bytes.checkpoints, kPasses,
                       "inputs of recomputed layers", kKorthikanti));
  hold(book, on_device(Term::activations, bytes.pending, kPasses,
                       "inputs and gradients that weights wait with",
                       "arXiv 2401.10241, table 1"));
  const char* what = recomputes_layers(p.strategy)
                         ? "one layer, rebuilt and differentiated"
                         : "gradients inside one layer";
  hold(book, on_device(Term::activations, bytes.working,
                       {Phase::backward, Phase::backward}, what, kKorthikanti));
  hold(book, on_device(Term::activations, bytes.embedding, kPasses,
                       "token ids and embedding dropout", kKorthikanti));
}

/// The moment at which a stage holds most, and, of losses, the one at which it
/// holds most beside one. The former is the start of a backward: it follows a
/// forward, or holds what it did.
struct FullMoments {
  ChunkActivations backward, loss;
};

/// Walks the passes of a stage whose backward is split. What four rounds of the
/// pipeline hold, more micro-batches hold again.
class SplitWalk {
 public:
  explicit SplitWalk(const Place& p) : place_(p), chunks_(chunks_of(p)) {
    counts_.resize(chunks_.size());
  }

  FullMoments run() && {
    constexpr std::int64_t kRounds = 4;
    const std::int64_t passes = std::min<std::int64_t>(
        place_.micro_batches, kRounds * place_.strategy.pipeline);
    for (const Pass& pass :
         schedule(place_.strategy, place_.stage, static_cast<int>(passes)))
      take(pass.part, static_cast<std::size_t>(pass.chunk));
    return moments_;
  }

 private:
  struct Count {
    std::int64_t saved = 0, pending = 0;
  };

  void take(PassPart part, std::size_t chunk) {
    Count& count = counts_[chunk];
    const bool has_head = place_.shape.chunks[chunk].has_head;
    if (part == PassPart::forward) {
      ++count.saved;
      if (!has_head) return;
      consider(held(0), moments_.loss);
      ++losses_;
      return;
    }
    if (part == PassPart::weights) {
      --count.pending;
      return;
    }
    if (has_head) --losses_;
    consider(held(working(chunk)), moments_.backward);
    --count.saved;
    if (part == PassPart::inputs) ++count.pending;
  }

  ChunkActivations held(std::int64_t working) const {
    ChunkActivations sum;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      const ChunkActivations& one = chunks_[i];
      const Count& count = counts_[i];
      sum.saved = capped_sum(sum.saved, count.saved, one.saved);
      sum.checkpoints =
          capped_sum(sum.checkpoints, count.saved, one.checkpoints);
      sum.embedding = capped_sum(sum.embedding, count.saved, one.embedding);
      sum.pending = capped_sum(sum.pending, count.pending, one.pending);
    }
    sum.working = working;
    return sum;
  }

  /// Of a backward, beside what `hold_loss` holds in backward of any chunk: the
  /// loss of the head's. Beside those of others one may wait.
  std::int64_t working(std::size_t chunk) const {
    const std::int64_t own = chunks_[chunk].working;
    if (!place_.shape.has_head() || place_.shape.chunks[chunk].has_head)
      return own;
    const EndActivations& ends = place_.sizes.ends;
    const std::int64_t waiting =
        capped_product(losses_, (ends.head + ends.loss_saved).value);
    const bool stays =
        loss_until(place_.keeps, place_.setting.workload) == Phase::backward;
    const std::int64_t held = stays ? ends.logits.value : 0;
    return std::max<std::int64_t>(0, own + waiting - held);
  }

  static void consider(const ChunkActivations& held, ChunkActivations& most) {
    if (held.all() + held.working > most.all() + most.working) most = held;
  }

  const Place& place_;
  Chunks chunks_;
  boost::container::small_vector<Count, 16> counts_;
  std::int64_t losses_ = 0;  // whose backward has not begun
  FullMoments moments_;
};

ChunkActivations common(const ChunkActivations& a, const ChunkActivations& b) {
  return {std::min(a.saved, b.saved), std::min(a.checkpoints, b.checkpoints),
          std::min(a.embedding, b.embedding), std::min(a.pending, b.pending),
          a.working};
}

void hold_split(const Place& p, Ledger& book) {
  const auto [backward, loss] = SplitWalk(p).run();
  if (!p.shape.has_head()) return hold_passes(p, backward, book);
  const ChunkActivations both = common(backward, loss);
  hold_passes(p, both, book);
  const auto more = [&](const ChunkActivations& than, Phase phase) {
    hold(book, on_device(Term::activations, than.all() - both.all(),
                         {phase, phase}, "more of them at that moment",
                         "arXiv 2401.10241, section 2"));
  };
  more(loss, Phase::loss);
  more(backward, Phase::backward);
}

}  // namespace

ChunkBytes chunk_bytes(const StageSizes& sizes, const ChunkShape& chunk,
                       const Strategy& strategy) {
  const ChunkActivations one = chunk_activations(sizes, chunk, strategy);
  return {{one.kept()}, {one.working}, {one.pending}};
}

void hold_activations(const Place& p, Ledger& book) {
  if (splits_backward(p.strategy.schedule)) return hold_split(p, book);
  const std::int64_t in_flight =
      chunks_in_flight(p.strategy, p.stage, static_cast<int>(p.micro_batches));
  hold_passes(p, stage_activations(p, in_flight), book);
}

void hold_loss(const Place& p, Ledger& book) {
  if (!p.shape.has_head()) return;
  const std::int64_t waiting = losses_waiting(p);
  const EndActivations& ends = p.sizes.ends;
  hold(book,
       on_device(Term::activations, ends.head.value,
                 {Phase::forward, Phase::loss}, "final norm", kKorthikanti));
  hold(book, on_device(Term::activations,
                       capped_product(waiting - 1, ends.head.value), kPasses,
                       "final norms that wait", kKorthikanti));
  hold(book, on_device(Term::logits,
                       capped_product(waiting - 1, ends.loss_saved.value),
                       kPasses, "losses that wait",
                       "torch, distributed/pipelining/schedules.py (GPipe)"));
  hold(book, on_device(Term::logits, ends.logits.value,
                       {Phase::loss, loss_until(p.keeps, p.setting.workload)},
                       "logits, loss and their gradient",
                       "Megatron-LM, core/tensor_parallel/cross_entropy.py"));
}

/// What a stage received and what it sent of every micro-batch in flight: a
/// tensor of its own each, for the first layer works on a clone. Tensor ranks
/// keep a part of the output each, and of the input what is computed with. The
/// last stage frees its logits when the next take their place. Source:
/// DeepSpeed, runtime/pipe/engine.py (pipe_buffers, _exec_forward_pass).
void hold_boundaries(const Place& p, Ledger& book) {
  constexpr const char* kPipe = "DeepSpeed, runtime/pipe/engine.py";
  if (!p.keeps.keeps_boundaries || p.strategy.pipeline == 1) return;
  const std::int64_t in_flight =
      chunks_in_flight(p.strategy, p.stage, static_cast<int>(p.micro_batches));
  const std::int64_t one = p.sizes.boundary.value;
  const bool receives = p.stage > 0 && p.strategy.tensor == 1;
  const bool sends = p.stage < p.strategy.pipeline - 1;
  const std::int64_t output = divide_up(one, p.strategy.tensor);
  if (receives)
    hold(book, on_device(Term::buffers, capped_product(in_flight, one), kPasses,
                         "inputs of micro-batches in flight", kPipe));
  if (sends)
    hold(book, on_device(Term::buffers, capped_product(in_flight, output),
                         kPasses, "outputs of micro-batches in flight", kPipe));
  else if (p.micro_batches > 1)
    hold(book,
         on_device(Term::buffers,
                   p.number() * (p.sizes.ends.fp32_logits.value / kFp32Bytes),
                   kPasses, "logits of the micro-batch before", kPipe));
}

}  // namespace ztplan
