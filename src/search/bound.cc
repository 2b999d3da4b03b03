#include "search/bound.h"

#include <algorithm>

#include "step/state_work.h"
#include "time/simulate.h"

namespace ztplan {
namespace {

// A bound and the simulation add the same prices in another order.
constexpr double kRounding = 1 - 1e-9;

}  // namespace

Seconds StepBound::seconds(const Recipe& recipe) {
  Seconds sum;
  for (const Item& item : recipe.items) {
    const auto* collective = std::get_if<Collective>(&item.work);
    const Seconds one = collective != nullptr
                            ? cache_.price(*collective)
                            : price(item.work, cache_.machine());
    sum += one * static_cast<double>(item.count);
  }
  return sum;
}

namespace {

/// One call for all of `share`: no more than its parts take.
Segment moved(const LayerShare& share) {
  Segment segment;
  segment.share = share;
  return segment;
}

}  // namespace

/// Gathers and reductions of one micro-batch on stage 0: unit by unit when
/// fully sharded, chunk by chunk when gradients are.
void StepBound::add_collectives(const StepParts& parts, const Frame& frame,
                                States& states) {
  const int zero = parts.strategy.zero;
  if (zero < 2 || keeps_stage_whole(parts.engine, parts.strategy)) return;
  const bool reduces = reduces_every_pass(parts);
  const auto reduction = [&](const LayerShare& share) {
    return reduces
               ? seconds(reduce_gradients(parts, moved(share), Boundary::inner))
               : Seconds{};
  };
  for (const ChunkShape& chunk : frame.shapes->front().chunks) {
    if (zero == 2) {
      states.data += reduction(chunk_share(parts, chunk));
      continue;
    }
    for (std::size_t kind = 0; kind < chunk.layers_of_kind.size(); ++kind) {
      const double count = chunk.layers_of_kind[kind];
      if (count == 0) continue;
      const LayerShare& share = parts.sizes.shares[kind];
      const bool is_cut =
          shards_weights(parts.setting.workload, parts.engine, parts.strategy);
      const Seconds gathers =
          is_cut ? seconds(gather_parameters(parts, moved(share))) * 2.0
                 : Seconds{};
      states.data += (gathers + reduction(share)) * count;
      states.units.push_back(
          {stored_bytes(parts.setting.workload,
                        owned_weights(parts.strategy, share)),
           count});
    }
  }
}

/// Gradients that stage 0 reduces from its last backward on: those of its first
/// chunk, unit by unit when fully sharded, else bucket by bucket.
Seconds StepBound::last_reduction(const StepParts& parts, const Frame& frame) {
  const StageShape& stage = frame.shapes->front();
  const ChunkShape& chunk = stage.chunks.front();
  const auto reduction = [&](const LayerShare& share) {
    return seconds(reduce_gradients(parts, moved(share), Boundary::last));
  };
  Seconds sum;
  if (parts.strategy.zero < 3) {
    const LayerShare all = stage_share(parts.setting, parts.sizes, stage).all;
    for (const LayerShare& share :
         piece_shares(parts, chunk, gradient_pieces(parts, all)))
      sum += reduction(share);
    return sum;
  }
  for (std::size_t kind = 0; kind < chunk.layers_of_kind.size(); ++kind)
    sum += reduction(parts.sizes.shares[kind]) *
           static_cast<double>(chunk.layers_of_kind[kind]);
  return sum;
}

StepBound::States StepBound::make_states(const StepParts& parts,
                                         const Frame& frame) {
  const Strategy& s = parts.strategy;
  States states;
  for (const StageBase& base : frame.stages) {
    const LayerShare& share = base.share.all;
    Finish stage;
    stage.owned = owned_parameters(s, share);
    stage.optimizer = seconds(step_optimizer(parts, stage.owned));
    if (s.zero == 1 || s.zero == 2)
      stage.gather = seconds(gather_updates(parts, {&share, 1}));
    states.stages.push_back(stage);
  }
  add_collectives(parts, frame, states);
  states.reduced = last_reduction(parts, frame);
  states.beside = reduces_beside(parts);
  states.norm = seconds(norm_gradients(parts, states.stages.front().owned)) +
                seconds(reduce_norm(parts));
  return states;
}

const StepBound::States& StepBound::states(const StepParts& parts,
                                           const Frame& frame) {
  Strategy key = parts.strategy;
  key.recompute = {};
  key.micro_batch = 1;
  if (!folds(key)) key.schedule = Schedule::one_f_one_b;
  key.offload = {};
  const auto [found, added] =
      states_.try_emplace(std::pair{&parts.engine, std::move(key)});
  if (added) found->second = make_states(parts, frame);
  return found->second;
}

Seconds StepBound::finish(const StepParts& parts, const Finish& stage) const {
  const Strategy& s = parts.strategy;
  if (s.offload.optimizer == OffloadTier::none)
    return stage.optimizer + stage.gather;
  const Workload& w = parts.setting.workload;
  const Machine& m = cache_.machine();
  constexpr auto kSlices = static_cast<double>(kOffloadSlices);
  const std::int64_t slice = divide_up(stage.owned, kOffloadSlices);
  Seconds stepped =
      price(Transfer{Channel::device_to_host, gradient_bytes(w, slice)}, m) +
      price(HostAdam{slice}, m) * kSlices;
  if (s.offload.parameters == OffloadTier::none) stepped += stage.gather;
  if (s.offload.optimizer == OffloadTier::cpu) return stepped;
  const Bytes states = optimizer_bytes(parts, slice);
  const Seconds disk = price(Transfer{Channel::nvme_read, states}, m) +
                       price(Transfer{Channel::nvme_write, states}, m);
  return std::max(stepped, disk * kSlices);
}

/// Shards of offloaded parameters that one micro-batch copies, in forward and
/// in backward.
Seconds StepBound::fetches(const StepParts& parts, const States& states,
                           Channel channel) const {
  const OffloadTier tier = parts.strategy.offload.parameters;
  const bool copied = channel == Channel::nvme_read ? tier == OffloadTier::nvme
                                                    : tier != OffloadTier::none;
  Seconds sum;
  if (!copied) return sum;
  for (const Unit& unit : states.units)
    sum += price(Transfer{channel, unit.owned}, cache_.machine()) *
           (2 * unit.count);
  return sum;
}

Seconds StepBound::least_step(const Engine& engine, const Strategy& strategy) {
  const Frame& frame = cache_.frame(engine, strategy);
  const StepParts parts{cache_.setting(), engine, strategy, cache_.kinds(),
                        frame.cut->sizes};
  const States& of = states(parts, frame);
  const double repeats = frame.micro_batches - 1;
  const Seconds lanes =
      std::max({of.data, fetches(parts, of, Channel::host_to_device),
                fetches(parts, of, Channel::nvme_read)});
  Seconds last;
  for (const Finish& stage : of.stages)
    last = std::max(last, finish(parts, stage));
  // The last gradients are reduced from the last backward on, or after it.
  const Seconds before =
      of.beside ? frame.first_stage - frame.last_gradients : frame.first_stage;
  const Seconds passes =
      std::max({frame.passes, lanes * repeats, before + of.reduced});
  return (passes + of.norm + last) * kRounding;
}

}  // namespace ztplan
