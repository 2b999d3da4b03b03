#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "support/tensors.h"

using namespace ztplan;

namespace {

double activate(Activation kind, double x) {
  if (kind == Activation::relu) return x > 0 ? x : 0;
  if (kind == Activation::silu) return x / (1 + std::exp(-x));
  const double inner =
      std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(inner));
}

/// Rows of `width`, or of gate and up, `width` each.
Doubles slow_activation(Activation kind, bool gated, std::size_t width,
                        const Doubles& in) {
  const std::size_t columns = gated ? 2 * width : width;
  Doubles out;
  for (std::size_t row = 0; row < in.size(); row += columns) {
    for (std::size_t j = 0; j < width; ++j) {
      out.push_back(activate(kind, in[row + j]) *
                    (gated ? in[row + width + j] : 1));
    }
  }
  return out;
}

constexpr Activation kKinds[] = {Activation::gelu, Activation::relu,
                                 Activation::silu};

void check_activation(Activation kind, bool gated, Precision dtype,
                      double bound) {
  const std::int64_t width = 37, columns = gated ? 2 * width : width;
  Tensor in(3, columns, columns + 4, dtype), out(3, width, width + 1, dtype),
      out_gradient(3, width, width, dtype);
  in.fill(1);
  Doubles wide = in.values();
  for (double& one : wide) one *= 4;
  in.set(wide);
  out_gradient.fill(2);
  run_on_cpu(
      kernels::ActivationForward{in.matrix(), out.matrix(), kind, gated});
  const Doubles values = in.values(), pull = out_gradient.values();
  const auto slow = [&](const Doubles& x) {
    return slow_activation(kind, gated, static_cast<std::size_t>(width), x);
  };
  CAPTURE(static_cast<int>(kind));
  CAPTURE(gated);
  CHECK(distance(out.values(), slow(values)) < bound);
  CHECK(out.gaps_untouched());
  run_on_cpu(kernels::ActivationBackward{in.matrix(), out_gradient.matrix(),
                                         in.matrix(), kind, gated});
  CHECK(distance(in.values(),
                 slopes([&](const Doubles& x) { return dot(slow(x), pull); },
                        values)) < bound);
  CHECK(in.gaps_untouched());
}

}  // namespace

TEST_CASE("activations and their gradients, in place, equal their formulas") {
  for (const Activation kind : kKinds) {
    for (const bool gated : {false, true}) {
      check_activation(kind, gated, Precision::fp32, 4e-6);
      // Results below 16 and, mostly, below 4: half a last place of 8.
      check_activation(kind, gated, Precision::bf16, 0x1p-5);
      check_activation(kind, gated, Precision::fp16, 0x1p-8);
    }
  }
}

TEST_CASE("far from 0 an activation is 0 or its input") {
  for (const Activation kind : kKinds) {
    Tensor in = zero_tensor(1, 4), out = zero_tensor(1, 4), pull = in;
    in.set({-1e4, -200, 200, 1e4});
    pull.set({1, 1, 1, 1});
    run_on_cpu(
        kernels::ActivationForward{in.matrix(), out.matrix(), kind, false});
    CHECK(distance(out.values(), {0, 0, 200, 1e4}) < 1e-30);
    run_on_cpu(kernels::ActivationBackward{in.matrix(), pull.matrix(),
                                           in.matrix(), kind, false});
    CHECK(distance(in.values(), {0, 0, 1, 1}) < 1e-30);
  }
}
