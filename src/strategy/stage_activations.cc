#include <algorithm>

#include "strategy/recomputed.h"
#include "strategy/stage_holdings.h"

namespace ztplan {
namespace {

constexpr const char* kKorthikanti = "arXiv 2205.05198, section 4";

bool recomputes_layers(const Strategy& s) {
  return s.recompute.mode == Recompute::Mode::full;
}

/// What one micro-batch leaves in a chunk, and the most its backward adds.
struct ChunkActivations {
  std::int64_t saved = 0;        // of layers that keep everything
  std::int64_t checkpoints = 0;  // of layers that keep their input
  std::int64_t working = 0;      // above both
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

ChunkActivations chunk_activations(const StageSizes& sizes,
                                   const ChunkShape& chunk,
                                   const Strategy& strategy) {
  const CheckpointSplit split(sizes, chunk, recomputed_layers(strategy, chunk));
  ChunkActivations sum;
  for (std::size_t kind = 0; kind < chunk.layers_of_kind.size(); ++kind) {
    const LayerActivations& one = sizes.activations[kind];
    const std::int64_t checkpointed = split.of_kind(kind);
    sum.checkpoints += checkpointed * one.checkpoint.value;
    sum.saved += (chunk.layers_of_kind[kind] - checkpointed) * one.saved.value;
  }
  sum.working = working_bytes(sizes, chunk, split, sum.saved);
  return sum;
}

/// Micro-batches of chunk `chunk` among the first `in_flight` forwards: the
/// schedule takes `pipeline` of them through each chunk in turn.
/// Source: Megatron-LM, core/pipeline_parallel/schedules.py.
std::int64_t chunk_copies(const Place& p, std::int64_t in_flight,
                          std::int64_t chunk) {
  const std::int64_t v = p.strategy.virtual_stages;
  if (in_flight >= p.micro_batches * v) return p.micro_batches;
  const std::int64_t group = p.strategy.pipeline;
  const std::int64_t rest = in_flight % (group * v);
  const std::int64_t copies =
      in_flight / (group * v) * group +
      std::clamp<std::int64_t>(rest - chunk * group, 0, group);
  return std::min(copies, p.micro_batches);
}

/// Of all chunks and the micro-batches in them; the backward of one at a time.
ChunkActivations stage_activations(const Place& p, std::int64_t in_flight) {
  ChunkActivations sum;
  for (std::size_t i = 0; i < p.shape.chunks.size(); ++i) {
    const ChunkActivations chunk =
        chunk_activations(p.sizes, p.shape.chunks[i], p.strategy);
    const std::int64_t copies =
        chunk_copies(p, in_flight, static_cast<std::int64_t>(i));
    sum.saved += copies * chunk.saved;
    sum.checkpoints += copies * chunk.checkpoints;
    sum.working = std::max(sum.working, chunk.working);
  }
  return sum;
}

/// Micro-batches whose loss has run and whose backward has not: one, but under
/// GPipe all of them.
std::int64_t losses_waiting(const Place& p) {
  return p.strategy.schedule == Schedule::gpipe ? p.micro_batches : 1;
}

}  // namespace

ChunkBytes chunk_bytes(const StageSizes& sizes, const ChunkShape& chunk,
                       const Strategy& strategy) {
  const ChunkActivations one = chunk_activations(sizes, chunk, strategy);
  Bytes saved{one.saved + one.checkpoints};
  if (chunk.has_embedding) saved += sizes.ends.embedding;
  return {saved, {one.working}};
}

void hold_activations(const Place& p, Ledger& book) {
  const std::int64_t in_flight =
      chunks_in_flight(p.strategy, p.stage, static_cast<int>(p.micro_batches));
  const ChunkActivations bytes = stage_activations(p, in_flight);
  hold(book, on_device(Term::activations, bytes.saved, kPasses,
                       "saved activations", kKorthikanti));
  hold(book, on_device(Term::activations, bytes.checkpoints, kPasses,
                       "inputs of recomputed layers", kKorthikanti));
  const char* what = recomputes_layers(p.strategy)
                         ? "one layer, rebuilt and differentiated"
                         : "gradients inside one layer";
  hold(book, on_device(Term::activations, bytes.working,
                       {Phase::backward, Phase::backward}, what, kKorthikanti));
  if (!p.shape.has_embedding()) return;
  const std::int64_t copies = chunk_copies(p, in_flight, 0);
  hold(book,
       on_device(Term::activations, copies * p.sizes.ends.embedding.value,
                 kPasses, "token ids and embedding dropout", kKorthikanti));
}

void hold_loss(const Place& p, Ledger& book) {
  if (!p.shape.has_head()) return;
  const std::int64_t waiting = losses_waiting(p);
  const EndActivations& ends = p.sizes.ends;
  hold(book,
       on_device(Term::activations, waiting * ends.head.value,
                 {Phase::forward, Phase::loss}, "final norm", kKorthikanti));
  hold(book, on_device(Term::logits, (waiting - 1) * ends.loss_saved.value,
                       kPasses, "losses that wait",
                       "torch, distributed/pipelining/schedules.py (GPipe)"));
  hold(book, on_device(Term::logits, ends.logits.value,
                       {Phase::loss, p.keeps.loss_until},
                       "logits, loss and their gradient",
                       "Megatron-LM, core/tensor_parallel/cross_entropy.py"));
}

}  // namespace ztplan
