#include <cmath>

#include "base/error.h"
#include "calibrate/kernels/element.h"
#include "calibrate/kernels/run_on_cpu.h"

namespace ztplan::kernels {

/// Kingma & Ba (arXiv 1412.6980), algorithm 1, with the decay of 1711.05101,
/// algorithm 2.
void run(const AdamW& kernel) {
  require(kernel.step >= 1, "the first step of AdamW is 1");
  const auto step = static_cast<double>(kernel.step);
  const double first_bias = 1 - std::pow(double{kernel.beta1}, step);
  const double second_bias = 1 - std::pow(double{kernel.beta2}, step);
  const auto rate = static_cast<float>(kernel.learning_rate / first_bias);
  const auto root = static_cast<float>(1 / std::sqrt(second_bias));
  const float keep = 1 - kernel.learning_rate * kernel.weight_decay;
  float* const master = floats(kernel.master);
  float* const first = floats(kernel.first_moment);
  float* const second = floats(kernel.second_moment);
  for_pieces(kernel.master.size, [&](std::int64_t from, std::int64_t size) {
    float gradient[1024];
    const Array piece = slice(kernel.gradient, from, size);
    widen(piece.data, piece.dtype, size, gradient);
    for (std::int64_t i = 0; i < size; ++i) {
      const float g = gradient[i] * kernel.factor;
      float& m = first[from + i];
      float& v = second[from + i];
      m = kernel.beta1 * m + (1 - kernel.beta1) * g;
      v = kernel.beta2 * v + (1 - kernel.beta2) * g * g;
      master[from + i] = master[from + i] * keep -
                         rate * m / (std::sqrt(v) * root + kernel.epsilon);
    }
    const Array weight = slice(kernel.weight, from, size);
    narrow(master + from, weight.dtype, size, weight.data);
  });
}

void run(const SquareSum& kernel) {
  for_pieces(kernel.in.size, [&](std::int64_t from, std::int64_t size) {
    float values[1024];
    const Array piece = slice(kernel.in, from, size);
    widen(piece.data, piece.dtype, size, values);
    for (std::int64_t i = 0; i < size; ++i) {
      *kernel.sum += double{values[i]} * double{values[i]};
    }
  });
}

}  // namespace ztplan::kernels
