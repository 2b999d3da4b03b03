// Masters and Adam's moments of one rank's shards: on the device, in host
// memory, or on a drive of which slices come and go through two buffers.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "exec/device.h"
#include "exec/drive_file.h"

namespace ztplan {

enum class StateKind { master, first_moment, second_moment };
constexpr int kStateKinds = 3;

/// One slice of the three, fp32. Without masters of their own (fp32 weights on
/// the device) `master` is empty.
struct StateSlice {
  std::int64_t from = 0, size = 0;  // elements of the rank's shards
  std::array<Array, kStateKinds> arrays;
  const Array& operator[](StateKind kind) const {
    return arrays[static_cast<std::size_t>(kind)];
  }
};

class OptimizerStates {
 public:
  /// Of `size` elements. `folder` is where a drive's file goes.
  OptimizerStates(Device& device, OffloadTier tier, std::int64_t size,
                  bool has_masters, const std::string& folder);

  bool has_masters() const { return has_masters_; }
  int slices() const { return slices_; }
  /// Elements [from, from + size) of slice `i`; arrays of it where they are in
  /// memory: all along, or between `load` and `store`.
  StateSlice slice(int i) const;
  /// From the drive, and back to it; nothing elsewhere.
  void load(int i);
  void store(int i);

  /// A run of elements of one kind, wherever it is. Requires masters for them.
  void read(StateKind kind, std::int64_t from, std::span<float> out);
  void write(StateKind kind, std::int64_t from, std::span<const float> values);

  /// All of one kind. Requires states in memory.
  const Array& whole(StateKind kind) const {
    return arrays_[static_cast<std::size_t>(kind)];
  }

 private:
  /// In the drive's file, bytes.
  std::int64_t place_of(int slice, StateKind kind) const {
    constexpr std::int64_t kFp32 = 4;
    return (std::int64_t{slice} * kStateKinds + static_cast<int>(kind)) *
           slice_size_ * kFp32;
  }
  template <class Visit>
  void for_each_slice(std::int64_t from, std::int64_t size, const Visit& visit);

  Device& device_;
  std::int64_t size_, slice_size_;
  int slices_;
  bool has_masters_;
  std::array<Array, kStateKinds> arrays_;  // whole, or two slices of a drive
  std::optional<DriveFile> drive_;
};

}  // namespace ztplan
