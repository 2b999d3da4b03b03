#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "support/tensors.h"

using namespace ztplan;

namespace {

constexpr std::int64_t kTokens = 6, kExperts = 5, kTop = 2;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

struct Routed {
  Doubles probabilities, weights;
  std::vector<std::int32_t> experts;
};

Doubles slow_softmax(const double* logits) {
  Doubles all(logits, logits + kExperts);
  double sum = 0;
  for (double& one : all) sum += one = std::exp(one);
  for (double& one : all) one /= sum;
  return all;
}

/// The choice by repeated search for the largest left.
std::vector<std::int32_t> slow_choice(Doubles all) {
  std::vector<std::int32_t> chosen;
  for (std::int64_t k = 0; k < kTop; ++k) {
    const auto largest = std::ranges::max_element(all);
    chosen.push_back(static_cast<std::int32_t>(largest - all.begin()));
    *largest = -1;
  }
  return chosen;
}

Routed slow_route(const Doubles& logits, bool normalize) {
  Routed routed;
  for (std::int64_t i = 0; i < kTokens; ++i) {
    const Doubles all = slow_softmax(logits.data() + i * kExperts);
    const std::vector<std::int32_t> chosen = slow_choice(all);
    double sum = 0;
    for (const std::int32_t expert : chosen) sum += all[at(expert)];
    for (const std::int32_t expert : chosen) {
      routed.weights.push_back(all[at(expert)] / (normalize ? sum : 1));
    }
    routed.probabilities.insert(routed.probabilities.end(), all.begin(),
                                all.end());
    routed.experts.insert(routed.experts.end(), chosen.begin(), chosen.end());
  }
  return routed;
}

/// Logits and what a router makes of them.
struct World {
  Tensor logits, probabilities, weights;
  std::vector<std::int32_t> experts;

  explicit World(Precision dtype)
      : logits(kTokens, kExperts, kExperts + 1, dtype),
        probabilities(zero_tensor(kTokens, kExperts)),
        weights(zero_tensor(kTokens, kTop)),
        experts(at(kTokens * kTop)) {
    logits.fill(1);
  }
  Indices chosen() { return {experts.data(), kTokens * kTop}; }
  void route(bool normalize) {
    run_on_cpu(kernels::Route{logits.matrix(), probabilities.matrix(), chosen(),
                              weights.matrix(), normalize});
  }
};

Indices indices(std::vector<std::int32_t>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size())};
}

}  // namespace

TEST_CASE("a router gives the softmax's largest and their weights") {
  for (const Precision dtype :
       {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (const bool normalize : {false, true}) {
      World world(dtype);
      world.route(normalize);
      const Routed expected = slow_route(world.logits.values(), normalize);
      CHECK(world.experts == expected.experts);
      CHECK(distance(world.probabilities.values(), expected.probabilities) <
            1e-6);
      CHECK(distance(world.weights.values(), expected.weights) < 1e-6);
    }
  }
}

TEST_CASE("of equal experts a router takes the lower number") {
  World world(Precision::fp32);
  world.logits.set(Doubles(kTokens * kExperts, 0.5));
  world.route(true);
  for (std::int64_t i = 0; i < kTokens; ++i) {
    CHECK(world.experts[at(i * kTop)] == 0);
    CHECK(world.experts[at(i * kTop + 1)] == 1);
  }
}

TEST_CASE("a router's gradient is the slope of weights and balance") {
  for (const bool normalize : {false, true}) {
    for (const bool balanced : {false, true}) {
      CAPTURE(normalize);
      CAPTURE(balanced);
      World world(Precision::fp32);
      world.route(normalize);
      Tensor pull = random_tensor(kTokens, kTop, 2);
      Tensor balance = random_tensor(1, kExperts, 3);
      Tensor gradient(kTokens, kExperts, kExperts + 1, Precision::fp32);
      run_on_cpu(kernels::RouteBackward{
          world.probabilities.matrix(), pull.matrix(), gradient.matrix(),
          world.chosen(), balanced ? balance.array() : Array{}, normalize});
      const Doubles of_weights = pull.values();
      const Doubles of_probability = balance.values();
      const auto loss = [&](const Doubles& logits) {
        const Routed routed = slow_route(logits, normalize);
        double sum = dot(routed.weights, of_weights);
        for (std::size_t i = 0; balanced && i < kTokens * kExperts; ++i) {
          sum += routed.probabilities[i] * of_probability[i % kExperts];
        }
        return sum;
      };
      CHECK(distance(gradient.values(), slopes(loss, world.logits.values())) <
            1e-6);
      CHECK(gradient.gaps_untouched());
    }
  }
}

TEST_CASE("experts that get as much as they are given have a balance of 1") {
  constexpr double kFactor = 4.0 / (6 * 2 * 6);  // E / (T k T): E 4, T 6, k 2
  struct Row {
    Doubles counts, probabilities;  // of experts; of each token alike
    double balance;
  };
  // All of the choices on two experts that have all of the probability: E / k.
  for (const Row& row : {Row{{3, 3, 3, 3}, {0.25, 0.25, 0.25, 0.25}, 1},
                         Row{{6, 6, 0, 0}, {0.5, 0.5, 0, 0}, 2},
                         Row{{12, 0, 0, 0}, {1, 0, 0, 0}, 4},
                         Row{{3, 3, 3, 3}, {0.125, 0.5, 0.25, 0.125}, 1}}) {
    Tensor probabilities(6, 4, 5, Precision::fp32), counts = zero_tensor(1, 4);
    Doubles all;
    for (int token = 0; token < 6; ++token)
      all.insert(all.end(), row.probabilities.begin(), row.probabilities.end());
    probabilities.set(all);
    counts.set(row.counts);
    double sum = 10;
    run_on_cpu(kernels::BalanceSum{probabilities.matrix(), counts.array(),
                                   kFactor, &sum});
    CHECK(sum - 10 == doctest::Approx(row.balance));
  }
}

TEST_CASE("rows sent to experts and brought back are where they were") {
  // Token by token, copies go to places of their experts; place 4 stays empty.
  std::vector<std::int32_t> from{2, 0, 1, 0, -1, 2};
  Tensor in(3, 4, 6, Precision::fp32), sent(6, 4, 5, Precision::fp32);
  in.fill(1);
  sent.fill(2);
  run_on_cpu(
      kernels::GatherRows{in.matrix(), sent.matrix(), indices(from), {}});
  const Doubles tokens = in.values(), rows = sent.values();
  for (std::size_t i = 0; i < from.size(); ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      const double expected =
          from[i] < 0 ? 0 : tokens[static_cast<std::size_t>(from[i]) * 4 + j];
      CHECK(rows[i * 4 + j] == expected);
    }
  }
  CHECK(sent.gaps_untouched());
  Tensor back(3, 4, 7, Precision::fp32), factor = zero_tensor(1, 6);
  factor.set({0.25, 0.5, 1, 0.5, 9, 0.75});  // each token's sum to 1
  run_on_cpu(kernels::ScatterRows{sent.matrix(), back.matrix(), indices(from),
                                  factor.array()});
  CHECK(distance(back.values(), tokens) < 1e-6);
  CHECK(back.gaps_untouched());
}

TEST_CASE("weights' gradients are the dots of rows with what came of them") {
  std::vector<std::int32_t> from{1, 0, -1, 1};
  Tensor of_out = random_tensor(2, 5, 1), rows = random_tensor(4, 5, 2);
  Tensor factor = random_tensor(1, 4, 3), gradient = random_tensor(1, 4, 4);
  run_on_cpu(kernels::DotRows{of_out.matrix(), rows.matrix(), indices(from),
                              gradient.array()});
  const Doubles values = rows.values(), pull = of_out.values();
  const auto loss = [&](const Doubles& factors) {  // scattered, then pulled
    double sum = 0;
    for (std::size_t i = 0; i < from.size(); ++i) {
      for (std::size_t j = 0; from[i] >= 0 && j < 5; ++j) {
        sum += factors[i] * values[i * 5 + j] *
               pull[static_cast<std::size_t>(from[i]) * 5 + j];
      }
    }
    return sum;
  };
  CHECK(distance(gradient.values(), slopes(loss, factor.values())) < 1e-6);
}

TEST_CASE("a gather's factor multiplies each of its rows") {
  std::vector<std::int32_t> from{1, 0};
  Tensor in(2, 2, 2, Precision::bf16), out(2, 2, 2, Precision::bf16);
  Tensor factor = zero_tensor(1, 2);
  in.set({1, 2, 3, 4});
  factor.set({2, 0.5});
  run_on_cpu(kernels::GatherRows{in.matrix(), out.matrix(), indices(from),
                                 factor.array()});
  CHECK(out.values() == Doubles{6, 8, 0.5, 1});
}
