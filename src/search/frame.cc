#include "search/frame.h"

#include <algorithm>

#include "step/layer_work.h"
#include "step/state_work.h"
#include "strategy/recomputed.h"
#include "strategy/schedule.h"
#include "time/simulate.h"

namespace ztplan {
namespace {

Pace pace(const Recipe& recipe, const Machine& machine) {
  return {price_items(recipe, machine).total, recipe.kernels};
}

Pace operator+(const Pace& a, const Pace& b) {
  return {a.work + b.work, a.launches + b.launches};
}

Pace times(const Pace& pace, int count) {
  return {pace.work * static_cast<double>(count), pace.launches * count};
}

Seconds seconds(const Pace& pace, const Machine& machine) {
  return std::max(pace.work, Seconds{machine.calibration.kernel_start.value *
                                     static_cast<double>(pace.launches)});
}

LayerPaces layer_paces(const StepParts& parts, const Machine& machine) {
  Strategy kept = parts.strategy;
  if (kept.recompute.mode == Recompute::Mode::full) kept.recompute = {};
  const Setting& setting = parts.setting;
  LayerPaces paces;
  for (const Layer& layer : parts.kinds.kinds) {
    paces.forward.push_back(pace(layer_forward(setting, layer, kept), machine));
    paces.kept.push_back(pace(layer_backward(setting, layer, kept), machine));
    const Recipe rebuilt = layer_backward(setting, layer, parts.strategy);
    paces.rebuilt.push_back(pace(rebuilt, machine));
    paces.rebuilt_inputs.push_back(
        pace(split_backward(rebuilt).inputs, machine));
    paces.kept_inputs.push_back(pace(
        split_backward(layer_backward(setting, layer, kept)).inputs, machine));
  }
  const std::int64_t vocab = parts.sizes.vocab;
  paces.embedding_forward = pace(embedding_forward(setting, kept), machine);
  paces.embedding_backward = pace(embedding_backward(setting, kept), machine);
  paces.head_forward = pace(head_forward(setting, kept, vocab), machine);
  const Recipe head = head_backward(setting, kept, vocab);
  paces.head_backward = pace(head, machine);
  paces.head_inputs = pace(split_backward(head).inputs, machine);
  return paces;
}

/// Only what decides how a layer is cut; all else at its default.
Strategy cut_key(const Strategy& s) {
  Strategy key;
  key.tensor = s.tensor;
  key.context = s.context;
  key.expert = s.expert;
  key.expert_tensor = s.expert_tensor;
  key.sequence_parallel = s.sequence_parallel;
  key.micro_batch = s.micro_batch;
  key.context_kind = s.context_kind;
  key.recompute = s.recompute;
  key.recompute.layers = 0;
  return key;
}

Strategy shape_key(const Strategy& s) {
  Strategy key;
  key.pipeline = s.pipeline;
  key.virtual_stages = s.virtual_stages;
  if (folds(s)) key.schedule = s.schedule;
  key.ends_as_layers = s.ends_as_layers;
  key.stage_layers = s.stage_layers;
  return key;
}

/// All but what varies fastest.
Strategy frame_key(const Strategy& s) {
  Strategy key = s;
  key.zero = 0;
  key.shard_group = 0;
  key.offload = {};
  return key;
}

/// Seconds of the passes of one chunk of one micro-batch.
struct ChunkSeconds {
  Seconds forward, backward;
  Seconds back;  // of the latter, what the stage before waits for
  Seconds gradients() const { return backward - back; }
};

ChunkSeconds chunk_seconds(const StepParts& parts, const LayerPaces& paces,
                           const ChunkShape& chunk, const Machine& machine) {
  Pace forward, backward, inputs;
  LayerShare share;
  int rebuilt = recomputed_layers(parts.strategy, chunk);
  for (std::size_t kind = 0; kind < paces.forward.size(); ++kind) {
    const int count = chunk.layers_of_kind[kind];
    const int again = std::min(rebuilt, count);
    rebuilt -= again;
    forward = forward + times(paces.forward[kind], count);
    backward = backward + times(paces.rebuilt[kind], again) +
               times(paces.kept[kind], count - again);
    inputs = inputs + times(paces.rebuilt_inputs[kind], again) +
             times(paces.kept_inputs[kind], count - again);
    share += count * parts.sizes.shares[kind];
  }
  if (chunk.has_embedding) {
    forward = forward + paces.embedding_forward;
    backward = backward + paces.embedding_backward;
  }
  if (chunk.has_head) {
    forward = forward + paces.head_forward;
    backward = backward + paces.head_backward;
    inputs = inputs + paces.head_inputs;
  }
  share +=
      end_layer_share(parts.setting.workload, end_parameters(parts, chunk));
  backward = backward + pace(accumulate_gradients(parts, share), machine);
  const Seconds whole = seconds(backward, machine);
  const bool splits = splits_backward(parts.strategy.schedule);
  return {seconds(forward, machine), whole,
          splits ? std::min(whole, inputs.work) : whole};
}

/// Sends on their own lane run from the first forward to the last backward of
/// stage 0: two for each chunk, but for the ends.
Seconds sent_beside(const Strategy& strategy, Seconds send, double repeats) {
  const int of_two = folds(strategy) ? 2 : 1;  // where a V turns there is none
  const int ends = strategy.pipeline == 2 ? of_two : 0;
  const int sends = 2 * strategy.virtual_stages - ends;
  return send * (static_cast<double>(sends) * repeats);
}

}  // namespace

FrameCache::FrameCache(const Question& question, const LayerKinds& kinds)
    : setting_{question.model, question.cluster, question.workload},
      machine_{question.cluster, question.calibration},
      kinds_(kinds) {}

Seconds FrameCache::price(const Collective& collective) {
  const auto found = prices_.find(collective);
  if (found != prices_.end()) return found->second;
  const Seconds seconds = ztplan::price(collective, machine_);
  prices_.emplace(collective, seconds);
  return seconds;
}

const LayerCut& FrameCache::cut(const Engine& engine,
                                const Strategy& strategy) {
  auto& cut = cuts_[{&engine, cut_key(strategy)}];
  if (cut) return *cut;
  cut = std::make_unique<LayerCut>();
  cut->sizes = stage_sizes(setting_, engine, kinds_, strategy);
  const StepParts parts{setting_, engine, strategy, kinds_, cut->sizes};
  cut->paces = layer_paces(parts, machine_);
  return *cut;
}

const std::vector<StageShape>& FrameCache::shapes(const Strategy& strategy) {
  std::vector<StageShape>& shapes = shapes_[shape_key(strategy)];
  if (shapes.empty()) shapes = stage_shapes(kinds_, strategy);
  return shapes;
}

/// The longest of these paths, one for each stage: the first micro-batch comes
/// down to it, it runs all its forwards and what of its backwards the stage
/// before waits for, and the last gradient goes back to stage 0. And one more
/// for each: it runs all of its passes. A step takes at least as long, whatever
/// its schedule.
void FrameCache::bound_passes(const Strategy& strategy) {
  const LayerCut& cut = *frame_.cut;
  const StepParts parts{setting_, *framed_engine_, strategy, kinds_, cut.sizes};
  const bool blocking = !sends_beside(strategy.schedule);
  const bool splits = splits_backward(strategy.schedule);
  const double repeats = frame_.micro_batches;
  const Seconds send =
      strategy.pipeline == 1
          ? Seconds{}
          : ztplan::price(boundary_send(parts), machine()).total;
  Seconds down, up, through, all;
  const ChunkShape* last_shape = nullptr;
  ChunkSeconds last{}, first_of_all{};
  const int last_stage = strategy.pipeline - 1;
  for (int s = 0; s <= last_stage; ++s) {
    const auto& chunks = (*frame_.shapes)[static_cast<std::size_t>(s)].chunks;
    Seconds work, waited;
    ChunkSeconds first{};
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      if (last_shape == nullptr || !(*last_shape == chunks[c]))
        last = chunk_seconds(parts, cut.paces, chunks[c], machine_);
      last_shape = &chunks[c];
      if (c == 0) first = last;
      work += last.forward + last.backward;
      waited += last.forward + last.back;
    }
    const int sends = blocking ? (s < last_stage) + (s > 0) : 0;
    waited += send * static_cast<double>(sends);
    // The send of the last gradient is among its passes when it blocks.
    const Seconds back = blocking && s > 0 ? up - send : up;
    through = std::max(through, down + waited * repeats + back);
    if (splits) all = std::max(all, down + work * repeats);
    if (s == 0) first_of_all = first;
    if (s == 0 && splits) frame_.first_stage = all;
    down += first.forward + send;
    up += first.back + send;
  }
  if (!blocking && strategy.pipeline > 1)
    through = std::max(
        through, first_of_all.back + sent_beside(strategy, send, repeats));
  if (splits) {
    frame_.last_gradients = first_of_all.gradients();
    through += frame_.last_gradients;
  } else {
    frame_.last_gradients = first_of_all.backward;
    frame_.first_stage = {};
  }
  frame_.first_stage = std::max(frame_.first_stage, through);
  frame_.passes = std::max(frame_.first_stage, all);
}

const Frame& FrameCache::frame(const Engine& engine, const Strategy& strategy) {
  const Strategy key = frame_key(strategy);
  if (framed_engine_ == &engine && framed_ == key) return frame_;
  framed_ = key;
  framed_engine_ = &engine;
  frame_.cut = &cut(engine, strategy);
  frame_.shapes = &shapes(strategy);
  frame_.micro_batches = micro_batches(strategy, setting_.workload);
  frame_.stages.clear();
  for (const int stage : fullest_candidates(*frame_.shapes, strategy)) {
    const StageBase base = stage_base(
        setting_, engine, frame_.cut->sizes,
        (*frame_.shapes)[static_cast<std::size_t>(stage)], strategy, stage);
    if (frame_.stages.empty() ||
        !outweighs(frame_.stages.front(), base, frame_.cut->sizes.boundary))
      frame_.stages.push_back(base);
  }
  frame_.least_peak = {};
  for (const StageBase& base : frame_.stages)
    frame_.least_peak =
        std::max(frame_.least_peak, estimate_memory(base.passes, 0).peak());
  bound_passes(strategy);
  return frame_;
}

}  // namespace ztplan
