#include "step/segment.h"

#include <algorithm>

#include "base/error.h"
#include "step/layer_work.h"
#include "step/state_work.h"
#include "step/work_writer.h"
#include "strategy/recomputed.h"

namespace ztplan {
namespace {

// A weight gradient in 16 bits is read, the sum read and written.
constexpr int kAccumulateWide = 2 + 4 + 4, kAccumulateNarrow = 2 + 2 + 2;

/// Recipes of one layer of each kind, kept whole and recomputed.
struct LayerSegments {
  std::vector<Segment> kept, rebuilt;  // by kind
};

FlatShare layer_flat(const StepParts& parts, std::size_t kind) {
  const Layer& layer = parts.kinds.kinds[kind];
  return {parts.sizes.shares[kind],
          layer_parameters(parts.setting.model, layer).replicated, false};
}

FlatShare end_flat(const StepParts& parts, std::int64_t size,
                   std::int64_t whole) {
  return {end_layer_share(parts.setting.workload, size), whole, false};
}

/// The table, then positions and what else is whole.
std::vector<FlatShare> embedding_flats(const StepParts& parts) {
  const EndShare& ends = parts.sizes.end_share;
  const std::int64_t others = ends.embedding - ends.head;
  std::vector<FlatShare> flats{end_flat(parts, ends.head, 0)};
  if (others > 0) flats.push_back(end_flat(parts, others, others));
  return flats;
}

std::vector<FlatShare> head_flats(const StepParts& parts) {
  const EndShare& ends = parts.sizes.end_share;
  std::vector<FlatShare> flats;
  if (ends.norm > 0) flats.push_back(end_flat(parts, ends.norm, ends.norm));
  flats.push_back(end_flat(parts, ends.head, 0));
  flats.back().borrowed =
      parts.setting.model.tied && !ends_apart(parts.strategy);
  return flats;
}

Segment layer_segment(const StepParts& parts, std::size_t kind,
                      const Strategy& strategy) {
  const Layer& layer = parts.kinds.kinds[kind];
  return {layer_forward(parts.setting, layer, strategy),
          layer_backward(parts.setting, layer, strategy),
          parts.sizes.shares[kind],
          {layer_flat(parts, kind)}};
}

LayerSegments layer_segments(const StepParts& parts) {
  Strategy kept = parts.strategy;
  if (kept.recompute.mode == Recompute::Mode::full) kept.recompute = {};
  LayerSegments all;
  for (std::size_t kind = 0; kind < parts.kinds.kinds.size(); ++kind) {
    all.kept.push_back(layer_segment(parts, kind, kept));
    all.rebuilt.push_back(layer_segment(parts, kind, parts.strategy));
  }
  return all;
}

std::int64_t embedding_segment_share(const StepParts& parts) {
  return parts.sizes.end_share.embedding;
}

/// A tied head is the embedding where one stage holds both.
std::int64_t head_segment_share(const StepParts& parts) {
  const bool copy = !parts.setting.model.tied || ends_apart(parts.strategy);
  const EndShare& ends = parts.sizes.end_share;
  return ends.norm + (copy ? ends.head : 0);
}

Segment embedding_segment(const StepParts& parts) {
  return {
      embedding_forward(parts.setting, parts.strategy),
      embedding_backward(parts.setting, parts.strategy),
      end_layer_share(parts.setting.workload, embedding_segment_share(parts)),
      embedding_flats(parts)};
}

Segment head_segment(const StepParts& parts) {
  return {head_forward(parts.setting, parts.strategy, parts.sizes.vocab),
          head_backward(parts.setting, parts.strategy, parts.sizes.vocab),
          end_layer_share(parts.setting.workload, head_segment_share(parts)),
          head_flats(parts)};
}

/// Backward runs the parts of a segment in reverse order, so `part` goes first.
void extend(Segment& segment, const Segment& part, std::int64_t count) {
  append(segment.forward, part.forward, count);
  Recipe backward;
  append(backward, part.backward, count);
  append(backward, segment.backward, 1);
  segment.backward = std::move(backward);
  segment.share += count * part.share;
  for (std::int64_t i = 0; i < count; ++i)
    segment.flats.insert(segment.flats.end(), part.flats.begin(),
                         part.flats.end());
}

void name(const StepParts& parts, Segment& segment, const std::string& what) {
  append(segment.backward, accumulate_gradients(parts, segment.share), 1);
  segment.forward.name = "forward of " + what;
  segment.backward.name = "backward of " + what;
}

std::string layers_text(std::int64_t layers) {
  return std::to_string(layers) + (layers == 1 ? " layer" : " layers");
}

/// Takes layers off the front of a chunk: first those that are recomputed.
class LayerQueue {
 public:
  LayerQueue(const StepParts& parts, const ChunkShape& chunk)
      : layers_(layer_segments(parts)),
        left_(chunk.layers_of_kind),
        rebuilt_(recomputed_layers(parts.strategy, chunk)) {}

  /// Moves up to `count` layers into `segment`; says how many it moved.
  int take(Segment& segment, int count) {
    int taken = 0;
    for (std::size_t kind = 0; kind < left_.size(); ++kind)
      while (left_[kind] > 0 && taken < count)
        taken += take_run(segment, kind, count - taken);
    return taken;
  }

 private:
  int take_run(Segment& segment, std::size_t kind, int most) {
    int run = std::min(most, left_[kind]);
    if (rebuilt_ > 0) run = std::min(run, rebuilt_);
    extend(segment, (rebuilt_ > 0 ? layers_.rebuilt : layers_.kept)[kind], run);
    left_[kind] -= run;
    rebuilt_ = std::max(0, rebuilt_ - run);
    return run;
  }

  LayerSegments layers_;
  std::vector<int> left_;
  int rebuilt_;
};

}  // namespace

Recipe accumulate_gradients(const StepParts& parts, const LayerShare& share) {
  const Workload& w = parts.setting.workload;
  const Strategy& strategy = parts.strategy;
  Recipe recipe;
  if (w.precision == Precision::fp32) return recipe;
  const bool wide = w.gradient == Precision::fp32;
  // A gradient as computed is kept, and added to from the second one on; of a
  // sharded one, the shard.
  if (!wide && micro_batches(strategy, w) == 1) return recipe;
  const std::int64_t added = !wide && reduces_every_pass(parts)
                                 ? owned_parameters(strategy, share)
                                 : share.trained_dense + share.trained_experts;
  recipe.items.push_back(
      {TimeTerm::compute, 1,
       Stream{Bytes{(wide ? kAccumulateWide : kAccumulateNarrow) * added},
              wide ? PassKind::gradient : PassKind::fixed,
              Operation::accumulate, weight_dtype(w.precision)},
       0, false, true});
  return recipe;
}

std::int64_t end_parameters(const StepParts& parts, const ChunkShape& chunk) {
  std::int64_t sum = 0;
  if (chunk.has_embedding) sum += embedding_segment_share(parts);
  if (chunk.has_head) sum += head_segment_share(parts);
  return sum;
}

LayerShare chunk_share(const StepParts& parts, const ChunkShape& chunk) {
  LayerShare share =
      end_layer_share(parts.setting.workload, end_parameters(parts, chunk));
  for (std::size_t kind = 0; kind < chunk.layers_of_kind.size(); ++kind) {
    const int count = chunk.layers_of_kind[kind];
    share += count * parts.sizes.shares[kind];
  }
  return share;
}

std::vector<Segment> cut_chunk(const StepParts& parts, const ChunkShape& chunk,
                               int pieces) {
  require(pieces >= 1, "a chunk is cut into at least one piece");
  const int layers = chunk.layers();
  const int count = std::clamp(pieces, 1, std::max(1, layers));
  LayerQueue queue(parts, chunk);
  std::vector<Segment> segments;
  for (int i = 0; i < count; ++i) {
    Segment segment;
    if (i == 0 && chunk.has_embedding)
      extend(segment, embedding_segment(parts), 1);
    const int taken =
        queue.take(segment, layers * (i + 1) / count - layers * i / count);
    if (i == count - 1 && chunk.has_head)
      extend(segment, head_segment(parts), 1);
    name(parts, segment, layers_text(taken));
    segments.push_back(std::move(segment));
  }
  return segments;
}

std::vector<LayerShare> piece_shares(const StepParts& parts,
                                     const ChunkShape& chunk, int pieces) {
  const int layers = chunk.layers();
  const int count = std::clamp(pieces, 1, std::max(1, layers));
  std::vector<LayerShare> shares(static_cast<std::size_t>(count));
  const auto end = [&](std::int64_t parameters) {
    return end_layer_share(parts.setting.workload, parameters);
  };
  std::vector<int> left = chunk.layers_of_kind;
  for (int i = 0; i < count; ++i) {
    LayerShare& share = shares[static_cast<std::size_t>(i)];
    int wanted = layers * (i + 1) / count - layers * i / count;
    for (std::size_t kind = 0; kind < left.size(); ++kind) {
      const int run = std::min(wanted, left[kind]);
      share += run * parts.sizes.shares[kind];
      left[kind] -= run;
      wanted -= run;
    }
  }
  if (chunk.has_embedding)
    shares.front() += end(embedding_segment_share(parts));
  if (chunk.has_head) shares.back() += end(head_segment_share(parts));
  return shares;
}

std::vector<FlatShare> chunk_flats(const StepParts& parts,
                                   const ChunkShape& chunk) {
  std::vector<FlatShare> flats;
  if (chunk.has_embedding) flats = embedding_flats(parts);
  for (std::size_t kind = 0; kind < chunk.layers_of_kind.size(); ++kind)
    flats.insert(flats.end(),
                 static_cast<std::size_t>(chunk.layers_of_kind[kind]),
                 layer_flat(parts, kind));
  if (!chunk.has_head) return flats;
  const std::vector<FlatShare> head = head_flats(parts);
  flats.insert(flats.end(), head.begin(), head.end());
  return flats;
}

std::vector<Segment> cut_units(const StepParts& parts,
                               const ChunkShape& chunk) {
  LayerQueue queue(parts, chunk);
  std::vector<Segment> units;
  const auto add = [&](Segment unit, const std::string& what) {
    name(parts, unit, what);
    units.push_back(std::move(unit));
  };
  if (chunk.has_embedding) add(embedding_segment(parts), "embedding");
  for (int i = 0; i < chunk.layers(); ++i) {
    Segment unit;
    queue.take(unit, 1);
    add(std::move(unit), layers_text(1));
  }
  if (chunk.has_head) add(head_segment(parts), "head");
  return units;
}

}  // namespace ztplan
