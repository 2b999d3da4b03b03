#include <doctest/doctest.h>

#include <cmath>

#include "support/tensors.h"

using namespace ztplan;

namespace {

struct Case {
  std::int64_t rows, columns;
  bool centered, weighs, shifts;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> cases{
      {1, 1, true, true, true},     {3, 7, true, true, true},
      {4, 37, false, true, false},  {2, 16, true, false, false},
      {5, 33, false, false, false}, {2, 130, true, true, false},
      {0, 8, true, true, true},
  };
  return cases;
}

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// arXiv 1607.06450, eq. 4; arXiv 1910.07467, eq. 4.
Doubles slow_norm(const Case& c, const Doubles& in, const Doubles& weight,
                  const Doubles& bias) {
  Doubles out;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    double mean = 0, spread = 0;
    const auto columns = static_cast<double>(c.columns);
    for (std::int64_t j = 0; j < c.columns; ++j) {
      if (c.centered) mean += in[at(i * c.columns + j)] / columns;
    }
    for (std::int64_t j = 0; j < c.columns; ++j) {
      spread += std::pow(in[at(i * c.columns + j)] - mean, 2) / columns;
    }
    for (std::int64_t j = 0; j < c.columns; ++j) {
      const double normal = (in[at(i * c.columns + j)] - mean) /
                            std::sqrt(spread + double{1e-5F});
      out.push_back(normal * (c.weighs ? weight[at(j)] : 1) +
                    (c.shifts ? bias[at(j)] : 0));
    }
  }
  return out;
}

/// A norm with its memory.
struct World {
  Case shape;
  Tensor in, out, out_gradient, in_gradient;
  Tensor weight, bias, mean, rstd, weight_gradient, bias_gradient;

  World(const Case& c, Precision dtype)
      : shape(c),
        in(c.rows, c.columns, c.columns + 2, dtype),
        out(in),
        out_gradient(in),
        in_gradient(in),
        weight(1, c.columns, c.columns, dtype),
        bias(weight),
        mean(zero_tensor(1, c.rows)),
        rstd(mean),
        weight_gradient(zero_tensor(1, c.columns)),
        bias_gradient(weight_gradient) {
    in.fill(1);
    out_gradient.fill(2);
    weight.fill(3);
    bias.fill(4);
  }
  Array if_weighs(Tensor& tensor) const {
    return shape.weighs ? tensor.array() : Array{};
  }
  Array if_shifts(Tensor& tensor) const {
    return shape.shifts ? tensor.array() : Array{};
  }
  Array mean_array() { return shape.centered ? mean.array() : Array{}; }
  void forward() {
    run_on_cpu(kernels::NormForward{in.matrix(), out.matrix(),
                                    if_weighs(weight), if_shifts(bias),
                                    mean_array(), rstd.array(), 1e-5F});
  }
  void backward(bool accumulate) {
    run_on_cpu(kernels::NormBackward{
        in.matrix(), out_gradient.matrix(), in_gradient.matrix(),
        if_weighs(weight), mean_array(), rstd.array(),
        if_weighs(weight_gradient), if_shifts(bias_gradient), accumulate});
  }
};

void check_norm(const Case& c, Precision dtype, double bound,
                double gradient_bound) {
  World world(c, dtype);
  world.forward();
  world.backward(false);
  const Doubles in = world.in.values(), weight = world.weight.values(),
                bias = world.bias.values(), pull = world.out_gradient.values();
  const auto pulled = [&](const Doubles& x, const Doubles& w,
                          const Doubles& b) {
    return dot(slow_norm(c, x, w, b), pull);
  };
  CAPTURE(c.rows);
  CAPTURE(c.columns);
  CHECK(distance(world.out.values(), slow_norm(c, in, weight, bias)) < bound);
  CHECK(distance(world.in_gradient.values(),
                 slopes([&](auto& x) { return pulled(x, weight, bias); }, in)) <
        gradient_bound);
  CHECK(distance(world.weight_gradient.values(),
                 slopes([&](auto& w) { return pulled(in, w, bias); }, weight)) <
        2e-5);
  CHECK(distance(world.bias_gradient.values(),
                 slopes([&](auto& b) { return pulled(in, weight, b); }, bias)) <
        2e-5);
  CHECK(world.out.gaps_untouched());
  CHECK(world.in_gradient.gaps_untouched());
}

}  // namespace

TEST_CASE("a norm and its gradients equal their definition") {
  for (const Case& c : cases()) {
    // A row of one element has gradients of differences near 0, times 1/sqrt
    // of epsilon.
    check_norm(c, Precision::fp32, 2e-6, c.columns == 1 ? 1e-3 : 2e-5);
    if (c.columns == 1) continue;
    // Results below 4 round by 2^-8 and 2^-11 of 2.
    check_norm(c, Precision::bf16, 0x1p-7, 0x1p-6);
    check_norm(c, Precision::fp16, 0x1p-10, 0x1p-9);
  }
}

TEST_CASE("a norm's gradients are added to") {
  World world({3, 37, true, true, true}, Precision::fp32);
  world.forward();
  world.backward(false);
  const Doubles in = world.in_gradient.values(),
                weight = world.weight_gradient.values(),
                bias = world.bias_gradient.values();
  world.backward(true);
  for (std::size_t i = 0; i < in.size(); ++i) {
    CHECK(world.in_gradient.values()[i] == 2 * in[i]);
  }
  for (std::size_t j = 0; j < weight.size(); ++j) {
    CHECK(world.weight_gradient.values()[j] == 2 * weight[j]);
    CHECK(world.bias_gradient.values()[j] == 2 * bias[j]);
  }
}

TEST_CASE("a norm's row does not depend on the others") {
  World world({7, 45, true, true, true}, Precision::fp32);
  World again({7, 45, true, true, true}, Precision::fp32);
  world.forward();
  for (std::int64_t i = 0; i < 7; ++i) {
    run_on_cpu(kernels::NormForward{rows_of(again.in.matrix(), i, 1),
                                    rows_of(again.out.matrix(), i, 1),
                                    again.weight.array(), again.bias.array(),
                                    slice(again.mean.array(), i, 1),
                                    slice(again.rstd.array(), i, 1), 1e-5F});
  }
  CHECK(world.out.bytes() == again.out.bytes());
  CHECK(world.rstd.bytes() == again.rstd.bytes());
}
