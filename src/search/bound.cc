#include "search/bound.h"

#include <algorithm>

#include "step/state_work.h"
#include "time/simulate.h"

namespace ztplan {
namespace {

// A bound and the simulation add the same prices in another order.
constexpr double kRounding = 1 - 1e-9;

LayerShare layers_of(const StageShare& share) {
  return {share.dense, share.experts};
}

Seconds seconds(FrameCache& cache, const Recipe& recipe) {
  Seconds sum;
  for (const Item& item : recipe.items) {
    const auto* collective = std::get_if<Collective>(&item.work);
    const Seconds one = collective != nullptr
                            ? cache.price(*collective)
                            : price(item.work, cache.machine());
    sum += one * static_cast<double>(item.count);
  }
  return sum;
}

/// Gathers and reductions of one micro-batch of a fully sharded stage, unit by
/// unit. Offloaded shards are fetched before each gather.
struct LaneSeconds {
  Seconds data, to_device, nvme;
};

void add_unit(FrameCache& cache, const StepParts& parts,
              const LayerShare& share, double count, LaneSeconds& lanes) {
  const Strategy& s = parts.strategy;
  const Seconds gather = seconds(cache, gather_parameters(parts, share));
  const Seconds reduce =
      seconds(cache, reduce_gradients(parts, share, Boundary::inner));
  lanes.data += (gather * 2.0 + reduce) * count;
  const Bytes owned =
      parameter_bytes(parts.setting.workload, owned_parameters(s, share));
  if (s.offload.parameters != OffloadTier::none)
    lanes.to_device +=
        price(Transfer{Channel::host_to_device, owned}, cache.machine()) *
        (2 * count);
  if (s.offload.parameters == OffloadTier::nvme)
    lanes.nvme += price(Transfer{Channel::nvme_read, owned}, cache.machine()) *
                  (2 * count);
}

/// What one micro-batch puts on the other lanes of stage 0.
LaneSeconds lanes_of_micro_batch(FrameCache& cache, const StepParts& parts,
                                 const Frame& frame) {
  LaneSeconds lanes;
  if (parts.strategy.zero < 2) return lanes;
  for (const ChunkShape& chunk : frame.shapes->front().chunks) {
    if (parts.strategy.zero == 2) {
      lanes.data += seconds(
          cache,
          reduce_gradients(parts, chunk_share(parts, chunk), Boundary::inner));
      continue;
    }
    for (std::size_t kind = 0; kind < chunk.layers_of_kind.size(); ++kind)
      if (chunk.layers_of_kind[kind] > 0)
        add_unit(cache, parts, parts.sizes.shares[kind],
                 chunk.layers_of_kind[kind], lanes);
  }
  return lanes;
}

Seconds finish(FrameCache& cache, const StepParts& parts,
               const StageShare& share) {
  const Strategy& s = parts.strategy;
  const Workload& w = parts.setting.workload;
  const std::int64_t owned = owned_parameters(s, layers_of(share));
  Seconds gather;
  if (s.zero == 1 || s.zero == 2)
    gather = seconds(cache, gather_parameters(parts, layers_of(share)));
  if (s.offload.optimizer == OffloadTier::none)
    return seconds(cache, step_optimizer(parts, owned)) + gather;
  const std::int64_t slice = divide_up(owned, kOffloadSlices);
  const Machine& m = cache.machine();
  const Seconds adam = price(HostAdam{slice}, m);
  Seconds lane =
      price(Transfer{Channel::device_to_host, gradient_bytes(w, slice)}, m) +
      adam * static_cast<double>(kOffloadSlices);
  if (s.offload.optimizer == OffloadTier::nvme) {
    const Bytes states = state_bytes(w, slice);
    const Seconds disk = price(Transfer{Channel::nvme_read, states}, m) +
                         price(Transfer{Channel::nvme_write, states}, m);
    lane = std::max(lane, disk * static_cast<double>(kOffloadSlices));
  }
  return lane +
         (s.offload.parameters == OffloadTier::none ? gather : Seconds{});
}

}  // namespace

Seconds least_step(FrameCache& cache, const Engine& engine,
                   const Strategy& strategy) {
  const Frame& frame = cache.frame(engine, strategy);
  const StepParts parts{cache.setting(), engine, strategy, cache.kinds(),
                        frame.cut->sizes};
  const LaneSeconds lanes = lanes_of_micro_batch(cache, parts, frame);
  const double repeats = frame.micro_batches - 1;
  Seconds passes = frame.passes;
  for (const Seconds lane : {lanes.data, lanes.to_device, lanes.nvme})
    passes = std::max(passes, lane * repeats);
  Seconds last;
  for (const StageShare& share : frame.shares)
    last = std::max(last, finish(cache, parts, share));
  const std::int64_t owned =
      owned_parameters(strategy, layers_of(frame.shares.front()));
  const Seconds norm = seconds(cache, norm_gradients(parts, owned)) +
                       seconds(cache, reduce_norm(parts));
  return (passes + norm + last) * kRounding;
}

}  // namespace ztplan
