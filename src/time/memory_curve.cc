#include "time/memory_curve.h"

#include <algorithm>
#include <array>

#include "strategy/engine_memory.h"

namespace ztplan {
namespace {

/// Device bytes that do not come and go with micro-batches, by phase.
std::array<Bytes, kPhases> standing_bytes(const Ledger& book) {
  Ledger standing;
  for (const Holding& holding : book)
    if (holding.term != Term::activations && holding.term != Term::logits)
      standing.push_back(holding);
  return phase_bytes(standing, Tier::device);
}

class Curve {
 public:
  Curve(const StageSizes& sizes, const StageShape& shape,
        const Strategy& strategy, Phase loss_until, const Ledger& book)
      : ends_(sizes.ends),
        loss_until_(loss_until),
        standing_(standing_bytes(book)) {
    for (const ChunkShape& chunk : shape.chunks) {
      chunks_.push_back(chunk_bytes(sizes, chunk, strategy));
      has_head_.push_back(chunk.has_head);
    }
  }

  void forward(const Task& task, const Span& span) {
    const auto chunk = static_cast<std::size_t>(task.chunk);
    if (task.opens) {
      saved_ += chunks_[chunk].saved;
      add(span.start, Phase::forward, Bytes{});
    }
    if (!task.closes || !has_head_[chunk]) return;
    add(span.end, Phase::loss, ends_.head + ends_.logits);
    losses_ += ends_.head + ends_.loss_saved;
  }

  void backward(const Task& task, const Span& span) {
    const auto chunk = static_cast<std::size_t>(task.chunk);
    if (task.opens) {
      if (has_head_[chunk]) losses_ -= ends_.head + ends_.loss_saved;
      const bool loss_stays =
          has_head_[chunk] && loss_until_ == Phase::backward;
      add(span.start, Phase::backward,
          chunks_[chunk].working + (loss_stays ? ends_.logits : Bytes{}));
    }
    if (!task.closes) return;
    saved_ -= chunks_[chunk].saved;
    if (task.kind == TaskKind::input_gradients)
      saved_ += chunks_[chunk].pending;
    add(span.end, Phase::reduce, Bytes{});
  }

  void weights(const Task& task, const Span& span) {
    if (!task.closes) return;
    saved_ -= chunks_[static_cast<std::size_t>(task.chunk)].pending;
    add(span.end, Phase::reduce, Bytes{});
  }

  void step(const Span& span) {
    add(span.start, Phase::step, Bytes{});
    add(span.end, Phase::forward, Bytes{});
  }

  std::vector<CurvePoint> take() && { return std::move(points_); }

 private:
  void add(Seconds time, Phase phase, Bytes more) {
    points_.push_back(
        {time, phase,
         standing_[static_cast<std::size_t>(phase)] + saved_ + losses_ + more});
  }

  const EndActivations& ends_;
  Phase loss_until_;
  std::array<Bytes, kPhases> standing_;
  std::vector<ChunkBytes> chunks_;
  std::vector<bool> has_head_;
  Bytes saved_, losses_;
  std::vector<CurvePoint> points_;
};

}  // namespace

std::vector<CurvePoint> memory_curve(const Setting& setting,
                                     const Engine& engine,
                                     const Strategy& strategy,
                                     const StepGraph& graph,
                                     const Timeline& timeline, int stage) {
  const LayerKinds kinds = layer_kinds(setting.model);
  const StageSizes sizes = stage_sizes(setting, engine, kinds, strategy);
  const StageShape shape =
      stage_shapes(kinds, strategy)[static_cast<std::size_t>(stage)];
  Curve curve(sizes, shape, strategy,
              loss_until(*engine.memory, setting.workload),
              ledger(setting, engine, sizes, shape, strategy, stage));
  for (const TaskId id : graph.order()) {
    const Task& task = graph.tasks()[static_cast<std::size_t>(id)];
    const Span& span = timeline.spans[static_cast<std::size_t>(id)];
    if (task.stage != stage) continue;
    if (task.kind == TaskKind::forward) curve.forward(task, span);
    if (task.kind == TaskKind::backward ||
        task.kind == TaskKind::input_gradients)
      curve.backward(task, span);
    if (task.kind == TaskKind::weight_gradients) curve.weights(task, span);
    if (task.kind == TaskKind::optimizer) curve.step(span);
  }
  return std::move(curve).take();
}

}  // namespace ztplan
