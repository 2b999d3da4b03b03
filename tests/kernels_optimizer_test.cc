#include <doctest/doctest.h>

#include <cmath>

#include "support/tensors.h"

using namespace ztplan;

namespace {

constexpr std::int64_t kSize = 1500;  // more than one piece, and not two
constexpr double kRate = 0.01, kBeta1 = 0.9, kBeta2 = 0.95, kEpsilon = 1e-8,
                 kDecay = 0.1, kFactor = 0.5;
constexpr int kSteps = 10;

struct State {
  Doubles weight, first, second;
};

/// arXiv 1711.05101, algorithm 2, with a schedule of 1.
void slow_step(State& state, const Doubles& gradient, int step) {
  for (std::size_t i = 0; i < state.weight.size(); ++i) {
    const double g = gradient[i] * kFactor;
    state.first[i] = kBeta1 * state.first[i] + (1 - kBeta1) * g;
    state.second[i] = kBeta2 * state.second[i] + (1 - kBeta2) * g * g;
    const double first = state.first[i] / (1 - std::pow(kBeta1, step));
    const double second = state.second[i] / (1 - std::pow(kBeta2, step));
    state.weight[i] -= kRate * first / (std::sqrt(second) + kEpsilon) +
                       kRate * kDecay * state.weight[i];
  }
}

}  // namespace

TEST_CASE("ten steps of AdamW equal those of its definition") {
  for (const Precision dtype :
       {Precision::fp32, Precision::bf16, Precision::fp16}) {
    Tensor master = random_tensor(1, kSize, 1);
    Tensor first = zero_tensor(1, kSize), second = first;
    Tensor weight(1, kSize, kSize, dtype);
    State state{master.values(), Doubles(kSize), Doubles(kSize)};
    for (int step = 1; step <= kSteps; ++step) {
      Tensor gradient(1, kSize, kSize, dtype);
      gradient.fill(static_cast<unsigned>(10 + step));
      slow_step(state, gradient.values(), step);
      run_on_cpu(kernels::AdamW{
          master.array(), first.array(), second.array(), gradient.array(),
          weight.array(), static_cast<float>(kRate), static_cast<float>(kBeta1),
          static_cast<float>(kBeta2), static_cast<float>(kEpsilon),
          static_cast<float>(kDecay), static_cast<float>(kFactor), step});
    }
    CHECK(distance(master.values(), state.weight) < 2e-6);
    CHECK(distance(first.values(), state.first) < 1e-6);
    CHECK(distance(second.values(), state.second) < 1e-6);
    Tensor rounded(1, kSize, kSize, dtype);
    rounded.set(master.values());
    CHECK(weight.values() == rounded.values());
  }
}

TEST_CASE("AdamW may give its weights in the master's own place") {
  Tensor master = random_tensor(1, 7, 1), twin = master;
  Tensor first = zero_tensor(1, 7), second = first, weight = first;
  Tensor first_twin = first, second_twin = first;
  Tensor gradient = random_tensor(1, 7, 2);
  run_on_cpu(kernels::AdamW{master.array(), first.array(), second.array(),
                            gradient.array(), weight.array(), 0.1F});
  run_on_cpu(kernels::AdamW{twin.array(), first_twin.array(),
                            second_twin.array(), gradient.array(), twin.array(),
                            0.1F});
  CHECK(twin.values() == weight.values());
  CHECK(twin.values() == master.values());
}

TEST_CASE("squares are summed in double, in order, onto what was there") {
  for (const Precision dtype :
       {Precision::fp32, Precision::bf16, Precision::fp16}) {
    Tensor in(1, kSize, kSize, dtype);
    in.fill(5);
    double sum = 3, expected = 3;
    run_on_cpu(kernels::SquareSum{in.array(), &sum});
    for (const double value : in.values()) expected += value * value;
    CHECK(sum == expected);
  }
}
