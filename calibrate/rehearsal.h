// A work of a step as kernels on operands of its own: what a probe repeats.
#pragma once

#include <vector>

#include "exec/device.h"
#include "step/work.h"

namespace ztplan {

/// Its memory is the device's.
class Rehearsal {
 public:
  /// Requires a product, attention, or a pass that the executor has a kernel
  /// for (`can_rehearse`).
  Rehearsal(Device& device, const Work& work);

  /// Enqueues on the compute lane what `works()` works are made of: a product
  /// forward, for the gradient of its input and for that of its weights.
  void run() const;
  int works() const { return works_; }

 private:
  void lay(const Matmul& work);
  void lay(const AttentionWork& work);
  void lay(const Stream& work);
  void lay_norm(const Stream& work);
  void lay_activation(const Stream& work);
  void lay_rows(const Stream& work);
  void lay_loss(const Stream& work);
  void lay_states(const Stream& work);
  template <class Other>
  void lay(const Other& work);

  Array array(std::int64_t size, Precision dtype);
  Matrix matrix(std::int64_t rows, std::int64_t columns, Precision dtype);
  Indices counting(std::int64_t size, std::int64_t below);

  Device& device_;
  std::vector<Kernel> kernels_;
  int works_ = 1;
};

bool can_rehearse(Operation operation);

}  // namespace ztplan
