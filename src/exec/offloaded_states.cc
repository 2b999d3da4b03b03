// The part of StageStates that works on the host: an optimizer stepped by the
// processor, slice by slice, and weights that come from there.
#include <algorithm>

#include "exec/stage_states.h"
#include "strategy/native_stage.h"

namespace ztplan {

using namespace kernels;  // NOLINT: their names are this file's vocabulary

namespace {

/// Whole blocks of a drive around bytes [from, until).
struct Blocks {
  std::int64_t from, size;
};
Blocks blocks_around(std::int64_t from, std::int64_t until) {
  const std::int64_t begin = from / kDriveAlignment * kDriveAlignment;
  return {begin, round_up(until - begin, kDriveAlignment)};
}

}  // namespace

/// Calls `visit(flat, from its shard's begin, from the slice's begin, count)`
/// for what of each flat buffer lies in the slice.
template <class Visit>
void StageStates::for_each_in_slice(int slice, const Visit& visit) const {
  const StateSlice part = optimizer_.slice(slice);
  for (const auto& chunk : units_.chunks)
    for (const Unit& unit : chunk)
      for (const FlatState& flat : unit.flats) {
        if (flat.borrowed) continue;
        const std::int64_t from = std::max(part.from, flat.shard_at);
        const std::int64_t until =
            std::min(part.from + part.size, flat.shard_at + flat.shard);
        if (from < until)
          visit(flat, from - flat.shard_at, from - part.from, until - from);
      }
}

/// Weights of a slice on the host: among all of them, or in one of two buffers.
Array StageStates::host_weights(int slice) const {
  const StateSlice part = optimizer_.slice(slice);
  const std::int64_t at =
      weights_drive_ ? (slice % kUnitSlots) * offload_slice(units_.shards)
                     : part.from;
  return ztplan::slice(host_weights_, at, part.size);
}

void StageStates::fetch_gradients(Lane lane, int slice) const {
  if (slice >= optimizer_.slices()) return;
  const StateSlice part = optimizer_.slice(slice);
  for_each_in_slice(slice, [&](const FlatState& flat, std::int64_t from,
                               std::int64_t at, std::int64_t count) {
    const Array gradients =
        ztplan::slice(shard_of(flat).gradients, from, count);
    const Array here = ztplan::slice(host_gradients_, part.from + at, count);
    context_.device.copy(lane, here.data, gradients.data, bytes_in(gradients));
  });
}

void StageStates::load_slice(Lane lane, int slice) {
  if (slice >= optimizer_.slices()) return;
  context_.device.enqueue(lane, [this, slice] { optimizer_.load(slice); });
}

void StageStates::store_slice(Lane lane, int slice) {
  if (slice >= optimizer_.slices()) return;
  context_.device.enqueue(lane, [this, slice] {
    optimizer_.store(slice);
    if (!weights_drive_) return;
    const std::int64_t whole = offload_slice(units_.shards);
    const Array buffer =
        ztplan::slice(host_weights_, (slice % kUnitSlots) * whole, whole);
    const Bytes bytes = bytes_in(buffer);
    weights_drive_->write(slice * bytes.value,
                          {buffer.data, static_cast<std::size_t>(bytes.value)});
  });
}

void StageStates::step_slice(Lane lane, int slice,
                             const StepNumbers& numbers) const {
  if (slice >= optimizer_.slices()) return;
  const StateSlice part = optimizer_.slice(slice);
  const Array weights = host_weights(slice);
  for_each_in_slice(slice, [&](const FlatState& flat, std::int64_t from,
                               std::int64_t at, std::int64_t count) {
    const int rank = holders(flat).shards.rank();
    const std::int64_t begin = rank * flat.shard + from;
    for (const OwnedRange& range : owned_ranges(flat, rank)) {
      const std::int64_t first = std::max(range.from, begin);
      const std::int64_t last =
          std::min(range.from + range.size, begin + count);
      if (first >= last) continue;
      const std::int64_t place = at + first - begin;
      const auto of = [&](const Array& all) {
        return ztplan::slice(all, place, last - first);
      };
      AdamW adam = adam_of(numbers, range.decays);
      adam.master = of(part[StateKind::master]);
      adam.first_moment = of(part[StateKind::first_moment]);
      adam.second_moment = of(part[StateKind::second_moment]);
      adam.gradient =
          ztplan::slice(host_gradients_, part.from + place, last - first);
      adam.weight = of(weights);
      context_.device.enqueue(lane, [adam] { run_on_cpu(adam); });
    }
  });
}

void StageStates::return_weights(Lane lane, int slice) const {
  if (slice >= optimizer_.slices()) return;
  const Array weights = host_weights(slice);
  for_each_in_slice(slice, [&](const FlatState& flat, std::int64_t from,
                               std::int64_t at, std::int64_t count) {
    const Array to = ztplan::slice(shard_of(flat).weights, from, count);
    context_.device.copy(lane, to.data, ztplan::slice(weights, at, count).data,
                         bytes_in(to));
  });
}

/// Where a flat buffer's shard of weights waits on the host.
Array StageStates::staged(const FlatState& flat, int slot) const {
  if (!weights_drive_)
    return ztplan::slice(host_weights_, flat.shard_at, flat.shard);
  const Array& buffer = staged_weights_[static_cast<std::size_t>(slot)];
  const int width = bytes_of(buffer.dtype);
  const std::int64_t from = flat.shard_at * width;
  const Blocks blocks = blocks_around(from, from + flat.shard * width);
  return ztplan::slice(buffer, (from - blocks.from) / width, flat.shard);
}

void StageStates::load_weights(Lane lane, const Unit& unit, int slot) {
  // Flat by flat: each is on the device before the next takes its place.
  for (const FlatState& flat : unit.flats) {
    context_.device.enqueue(lane, [this, &flat, slot] {
      const Array& buffer = staged_weights_[static_cast<std::size_t>(slot)];
      const int width = bytes_of(buffer.dtype);
      const std::int64_t from = flat.shard_at * width;
      const Blocks blocks = blocks_around(from, from + flat.shard * width);
      weights_drive_->read(
          blocks.from, {buffer.data, static_cast<std::size_t>(blocks.size)});
    });
    fetch_flat(lane, flat, slot);
  }
}

void StageStates::fetch_weights(Lane lane, const Unit& unit, int slot) const {
  if (weights_drive_) return;  // with what was loaded
  for (const FlatState& flat : unit.flats) fetch_flat(lane, flat, slot);
}

void StageStates::fetch_flat(Lane lane, const FlatState& flat, int slot) const {
  const Array to = own(weights_of(flat, slot), flat);
  context_.device.copy(lane, to.data, staged(flat, slot).data, bytes_in(to));
}

}  // namespace ztplan
