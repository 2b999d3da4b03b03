// Activations of a feed-forward, plain and gated, and their gradients.
#include <numbers>
#include <vector>

#include "base/error.h"
#include "calibrate/kernels/element.h"
#include "calibrate/kernels/exponential.h"
#include "calibrate/kernels/run_on_cpu.h"

namespace ztplan::kernels {
namespace {

/// An activation and its slope at one place.
struct Point {
  float value, slope;
};

/// arXiv 1606.08415, section 2: 0.5 x (1 + tanh(u)), u = sqrt(2 / pi) (x +
/// 0.044715 x^3); (1 + tanh(u)) / 2 is the logistic function of 2 u.
struct Gelu {
  Point operator()(float x) const {
    constexpr float kCubic = 0.044715F;
    constexpr float kTwoRoots =
        2 * std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float>;
    const float u = kTwoRoots * (x + kCubic * x * x * x);
    const float gate = 1 / (1 + exponential(-u));
    const float slope = kTwoRoots * (1 + 3 * kCubic * x * x);
    return {x * gate, gate + x * gate * (1 - gate) * slope};
  }
};

struct Silu {
  Point operator()(float x) const {
    const float gate = 1 / (1 + exponential(-x));
    return {x * gate, gate * (1 + x * (1 - gate))};
  }
};

struct Relu {
  Point operator()(float x) const {
    return {x > 0 ? x : 0, x > 0 ? 1.0F : 0.0F};
  }
};

/// Calls `f` with the activation itself, so that its loops have no choice left.
template <class F>
void with(Activation kind, const F& f) {
  switch (kind) {
    case Activation::gelu:
      return f(Gelu{});
    case Activation::silu:
      return f(Silu{});
    case Activation::relu:
      return f(Relu{});
  }
  throw Bug("an activation of no kind");
}

template <class Act>
void forward_row(const Act& act, const float* in, std::int64_t width,
                 bool gated, float* out) {
  for (std::int64_t j = 0; j < width; ++j) out[j] = act(in[j]).value;
  if (!gated) return;
  for (std::int64_t j = 0; j < width; ++j) out[j] *= in[width + j];
}

template <class Act>
void backward_row(const Act& act, const float* in, const float* out_gradient,
                  std::int64_t width, bool gated, float* gradient) {
  if (!gated) {
    for (std::int64_t j = 0; j < width; ++j)
      gradient[j] = out_gradient[j] * act(in[j]).slope;
    return;
  }
  for (std::int64_t j = 0; j < width; ++j) {
    const Point point = act(in[j]);
    gradient[j] = out_gradient[j] * in[width + j] * point.slope;
    gradient[width + j] = out_gradient[j] * point.value;
  }
}

}  // namespace

void run(const ActivationForward& kernel) {
  const std::int64_t width = kernel.out.columns;
  std::vector<float> out(static_cast<std::size_t>(width)), scratch;
  with(kernel.kind, [&](const auto& act) {
    for (std::int64_t i = 0; i < kernel.out.rows; ++i) {
      forward_row(act, read_row(kernel.in, i, scratch), width, kernel.gated,
                  out.data());
      write_row(out.data(), kernel.out, i);
    }
  });
}

void run(const ActivationBackward& kernel) {
  std::vector<float> gradient(
      static_cast<std::size_t>(kernel.in_gradient.columns));
  std::vector<float> in_scratch, out_scratch;
  with(kernel.kind, [&](const auto& act) {
    for (std::int64_t i = 0; i < kernel.in.rows; ++i) {
      backward_row(act, read_row(kernel.in, i, in_scratch),
                   read_row(kernel.out_gradient, i, out_scratch),
                   kernel.out_gradient.columns, kernel.gated, gradient.data());
      write_row(gradient.data(), kernel.in_gradient, i);
    }
  });
}

}  // namespace ztplan::kernels
