#include "exec/largest_gradients.h"

#include "strategy/native_stage.h"

namespace ztplan {

using namespace kernels;  // NOLINT: their names are this file's vocabulary

namespace {

Array allocate(Device& device, Bytes bytes) {
  return {device.allocate(Tier::device, Term::buffers, bytes), bytes.value / 4,
          Precision::fp32};
}

struct Sent {
  Array values;
  Indices places;
};
Sent sent_in(const Array& part) {
  const std::int64_t count = part.size / 2;
  const Array places = slice(part, count, count);
  return {slice(part, 0, count),
          {reinterpret_cast<std::int32_t*>(places.data), count}};
}

}  // namespace

LargestGradients::LargestGradients(const RankContext& context,
                                   const StageUnits& units)
    : context_(context) {
  if (context.strategy.tuning.compression != Compression::topk) return;
  feedback_ = allocate(context.device, Bytes{units.whole * 4});
  room_ = allocate(context.device, native_topk(context.strategy, units.dense,
                                               units.whole - units.dense));
  context.device.launch(Lane::compute, Fill{feedback_, 0});
}

void LargestGradients::sum(Lane lane, const Peers& peers, std::int64_t from,
                           const Array& gradient) const {
  if (peers.size() == 1) return;
  const std::int64_t part = 2 * topk_count(context_.strategy, gradient.size);
  const Array all = slice(room_, 0, part * peers.size());
  const Array own = slice(all, part * peers.rank(), part);
  const Sent mine = sent_in(own);
  context_.device.launch(
      lane, SelectLargest{gradient, slice(feedback_, from, gradient.size),
                          mine.values, mine.places});
  peers.all_gather(lane, own, all);
  context_.device.launch(lane, Fill{gradient, 0});
  for (int rank = 0; rank < peers.size(); ++rank) {
    const Sent theirs = sent_in(slice(all, part * rank, part));
    context_.device.launch(lane,
                           AddAtPlaces{theirs.values, theirs.places, gradient});
  }
}

}  // namespace ztplan
