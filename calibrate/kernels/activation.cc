// Activations of a feed-forward, plain and gated, and their gradients.
#include <cmath>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "calibrate/kernels/element.h"
#include "calibrate/kernels/run_on_cpu.h"

namespace ztplan::kernels {
namespace {

/// An activation and its slope at one place.
struct Point {
  float value, slope;
};

/// arXiv 1606.08415, section 2: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715
/// x^3))).
Point gelu(float x) {
  constexpr float kCubic = 0.044715F;
  constexpr float kRoot =
      std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float>;
  const float t = std::tanh(kRoot * (x + kCubic * x * x * x));
  const float inner_slope = kRoot * (1 + 3 * kCubic * x * x);
  return {0.5F * x * (1 + t),
          0.5F * (1 + t) + 0.5F * x * (1 - t * t) * inner_slope};
}

Point silu(float x) {
  const float gate = 1 / (1 + std::exp(-x));
  return {x * gate, gate * (1 + x * (1 - gate))};
}

Point point_of(Activation kind, float x) {
  switch (kind) {
    case Activation::gelu:
      return gelu(x);
    case Activation::silu:
      return silu(x);
    case Activation::relu:
      return {x > 0 ? x : 0, x > 0 ? 1.0F : 0.0F};
  }
  throw Bug("an activation of no kind");
}

}  // namespace

void run(const ActivationForward& kernel) {
  const std::int64_t width = kernel.out.columns;
  std::vector<float> out(static_cast<std::size_t>(width)), scratch;
  for (std::int64_t i = 0; i < kernel.out.rows; ++i) {
    const float* const in = read_row(kernel.in, i, scratch);
    for (std::int64_t j = 0; j < width; ++j) {
      const float value = point_of(kernel.kind, in[j]).value;
      out[static_cast<std::size_t>(j)] =
          kernel.gated ? value * in[width + j] : value;
    }
    write_row(out.data(), kernel.out, i);
  }
}

void run(const ActivationBackward& kernel) {
  const std::int64_t width = kernel.out_gradient.columns;
  std::vector<float> gradient(
      static_cast<std::size_t>(kernel.in_gradient.columns));
  std::vector<float> in_scratch, out_scratch;
  for (std::int64_t i = 0; i < kernel.in.rows; ++i) {
    const float* const in = read_row(kernel.in, i, in_scratch);
    const float* const out = read_row(kernel.out_gradient, i, out_scratch);
    float* const gate = gradient.data();
    for (std::int64_t j = 0; j < width; ++j) {
      const Point point = point_of(kernel.kind, in[j]);
      const float up = kernel.gated ? in[width + j] : 1;
      gate[j] = out[j] * up * point.slope;
      if (kernel.gated) gate[width + j] = out[j] * point.value;
    }
    write_row(gate, kernel.in_gradient, i);
  }
}

}  // namespace ztplan::kernels
