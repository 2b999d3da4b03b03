// A frame laid over memory of a device: its tensors as kernels take them.
#pragma once

#include "calibrate/kernels/array.h"
#include "strategy/native_frames.h"

namespace ztplan {

template <class Name>
class FrameBlock {
 public:
  FrameBlock() = default;
  FrameBlock(const TensorFrame<Name>& frame, std::byte* data)
      : frame_(frame), data_(data) {}

  /// The same, but `name` is at `data`, outside the block.
  FrameBlock with(Name name, std::byte* data) const {
    FrameBlock other = *this;
    other.outside_ = data;
    other.outside_name_ = name;
    return other;
  }

  bool has(Name name) const { return frame_.has(name); }
  Array array(Name name, Precision dtype) const {
    return {at(name), frame_.bytes(name) / bytes_of(dtype), dtype};
  }
  /// Rows of `columns`; no rows where the tensor is absent.
  Matrix matrix(Name name, std::int64_t columns, Precision dtype) const {
    return as_matrix(array(name, dtype), columns);
  }
  Indices indices(Name name) const {
    constexpr std::int64_t kWidth = sizeof(std::int32_t);
    return {reinterpret_cast<std::int32_t*>(at(name)),
            frame_.bytes(name) / kWidth};
  }

 private:
  std::byte* at(Name name) const {
    if (outside_ != nullptr && name == outside_name_) return outside_;
    return frame_.has(name) ? data_ + frame_.offset(name) : nullptr;
  }
  TensorFrame<Name> frame_;
  std::byte* data_ = nullptr;
  std::byte* outside_ = nullptr;
  Name outside_name_{};
};

using SavedBlock = FrameBlock<Saved>;
using ScratchBlock = FrameBlock<Scratch>;
using HeadBlock = FrameBlock<HeadSaved>;

}  // namespace ztplan
