#include "exec/optimizer_states.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "strategy/native_stage.h"

namespace ztplan {
namespace {

constexpr std::int64_t kFp32 = 4;  // bytes
constexpr int kBuffers = 2;        // slices of a drive in memory

std::span<std::byte> bytes_of(const Array& array) {
  return {array.data, static_cast<std::size_t>(array.size * kFp32)};
}

}  // namespace

OptimizerStates::OptimizerStates(Device& device, OffloadTier tier,
                                 std::int64_t size, bool has_masters,
                                 const std::string& folder)
    : device_(device),
      size_(size),
      slice_size_(tier == OffloadTier::none ? size : offload_slice(size)),
      slices_(slice_size_ == 0
                  ? 0
                  : static_cast<int>(divide_up(size, slice_size_))),
      has_masters_(has_masters) {
  const bool on_drive = tier == OffloadTier::nvme;
  const std::int64_t held = on_drive ? kBuffers * slice_size_ : size;
  const Tier where = tier == OffloadTier::none ? Tier::device : Tier::host;
  const Term term = on_drive ? Term::buffers : Term::optimizer;
  for (int kind = has_masters ? 0 : 1; kind < kStateKinds; ++kind) {
    Array& array = arrays_[static_cast<std::size_t>(kind)];
    if (held > 0)
      array = {device.allocate(where, term, Bytes{held * kFp32}), held,
               Precision::fp32};
    if (!on_drive) device.launch(Lane::compute, kernels::Fill{array, 0});
  }
  device.synchronize();
  if (!on_drive) return;
  drive_.emplace(folder, place_of(slices_, StateKind::master));
  const std::vector<float> zeros(static_cast<std::size_t>(size), 0.0F);
  for (int kind = 0; kind < kStateKinds; ++kind)
    write(static_cast<StateKind>(kind), 0, zeros);
}

StateSlice OptimizerStates::slice(int i) const {
  StateSlice made;
  made.from = i * slice_size_;
  made.size = std::min(slice_size_, size_ - made.from);
  const std::int64_t at = drive_ ? (i % kBuffers) * slice_size_ : made.from;
  for (std::size_t kind = 0; kind < kStateKinds; ++kind)
    if (!arrays_[kind].empty())
      made.arrays[kind] = ztplan::slice(arrays_[kind], at, made.size);
  return made;
}

void OptimizerStates::load(int i) {
  if (!drive_) return;
  for (std::size_t kind = 0; kind < kStateKinds; ++kind)
    drive_->read(
        place_of(i, static_cast<StateKind>(kind)),
        bytes_of(ztplan::slice(arrays_[kind], (i % kBuffers) * slice_size_,
                               slice_size_)));
}

void OptimizerStates::store(int i) {
  if (!drive_) return;
  for (std::size_t kind = 0; kind < kStateKinds; ++kind)
    drive_->write(
        place_of(i, static_cast<StateKind>(kind)),
        bytes_of(ztplan::slice(arrays_[kind], (i % kBuffers) * slice_size_,
                               slice_size_)));
}

/// Calls `visit(slice, from its begin, count, from the run's begin)`.
template <class Visit>
void OptimizerStates::for_each_slice(std::int64_t from, std::int64_t size,
                                     const Visit& visit) {
  std::int64_t done = 0;
  while (done < size) {
    const std::int64_t at = from + done;
    const int i = static_cast<int>(at / slice_size_);
    const std::int64_t inside = at % slice_size_;
    const std::int64_t count = std::min(size - done, slice_size_ - inside);
    visit(i, inside, count, done);
    done += count;
  }
}

void OptimizerStates::read(StateKind kind, std::int64_t from,
                           std::span<float> out) {
  const auto at = static_cast<std::size_t>(kind);
  require(!arrays_[at].empty() || out.empty(), "states of this kind are held");
  const auto copy = [&](const Array& array, std::int64_t begin,
                        std::int64_t count, std::int64_t done) {
    device_.copy(Lane::compute, reinterpret_cast<std::byte*>(out.data() + done),
                 ztplan::slice(array, begin, count).data, Bytes{count * kFp32});
    device_.synchronize();
  };
  const auto size = static_cast<std::int64_t>(out.size());
  if (!drive_) return copy(arrays_[at], from, size, 0);
  for_each_slice(
      from, size,
      [&](int i, std::int64_t inside, std::int64_t count, std::int64_t done) {
        const Array buffer = ztplan::slice(arrays_[at], 0, slice_size_);
        drive_->read(place_of(i, kind), bytes_of(buffer));
        copy(buffer, inside, count, done);
      });
}

void OptimizerStates::write(StateKind kind, std::int64_t from,
                            std::span<const float> values) {
  const auto at = static_cast<std::size_t>(kind);
  require(!arrays_[at].empty() || values.empty(),
          "states of this kind are held");
  const auto copy = [&](const Array& array, std::int64_t begin,
                        std::int64_t count, std::int64_t done) {
    device_.copy(Lane::compute, ztplan::slice(array, begin, count).data,
                 reinterpret_cast<const std::byte*>(values.data() + done),
                 Bytes{count * kFp32});
    device_.synchronize();
  };
  const auto size = static_cast<std::int64_t>(values.size());
  if (!drive_) return copy(arrays_[at], from, size, 0);
  for_each_slice(
      from, size,
      [&](int i, std::int64_t inside, std::int64_t count, std::int64_t done) {
        const Array buffer = ztplan::slice(arrays_[at], 0, slice_size_);
        const bool is_new = inside == 0 && from + done + count >= size_;
        if (count < slice_size_ && !is_new)
          drive_->read(place_of(i, kind), bytes_of(buffer));
        copy(buffer, inside, count, done);
        drive_->write(place_of(i, kind), bytes_of(buffer));
      });
}

}  // namespace ztplan
