// A backward in two: gradients of inputs, and gradients of weights.
#include <doctest/doctest.h>

#include "step/layer_work.h"
#include "support/planning.h"
#include "time/simulate.h"

using namespace ztplan;

namespace {

double flops_of(const Recipe& recipe) {
  double sum = 0;
  for (const Item& item : recipe.items)
    sum += flops(item.work).value * static_cast<double>(item.count);
  return sum;
}

Recipe backward_of(const Question& q, const char* strategy) {
  return layer_backward(setting_of(q), q.model.layers.front().layer,
                        parse_strategy(strategy, q.cluster.devices));
}

Item product(int beside, bool weights) {
  Item item;
  item.work = Matmul{8, 8, 8};
  item.beside = beside;
  item.weights = weights;
  return item;
}

}  // namespace

TEST_CASE("passes of a layer multiply as often as table 1 of the paper says") {
  // arXiv 2401.10241, table 1: forward sbh(24h + 4s), inputs sbh(24h + 8s),
  // weights sbh(24h); its attention is computed in full.
  Question q = asked("gpt:layers=8,hidden=2048,heads=16,vocab=50304",
                     "dgx-a100-80", 8, 1024, 64);
  q.workload.attention = AttentionKernel::eager;
  const double h = 2048, s = 1024, tokens = 1024 * 2;
  const SplitBackward split =
      split_backward(backward_of(q, "micro=2,recompute=none"));
  CHECK(flops_of(split.inputs) == tokens * h * (24 * h + 8 * s));
  CHECK(flops_of(split.weights) == tokens * h * 24 * h);
}

TEST_CASE("a split backward has the works of the whole, and is no faster") {
  const Question questions[] = {
      asked("llama3-8b", "dgx-h100", 16, 4096, 64),
      asked("mixtral-8x7b", "dgx-h100", 16, 4096, 64),
      asked("deepseek-v3", "dgx-h100", 64, 4096, 64),
  };
  for (const Question& q : questions)
    for (const char* text :
         {"tp=1", "tp=4", "tp=4,sp=1", "tp=2,cp=2", "tp=2,sp=1,recompute=full",
          "tp=2,sp=1,recompute=selective:mlp+moe"}) {
      CAPTURE(q.model.name);
      CAPTURE(text);
      const Machine machine{q.cluster, q.calibration};
      const Recipe whole = backward_of(q, text);
      const SplitBackward split = split_backward(whole);
      const Recipe& inputs = split.inputs;
      const Recipe& weights = split.weights;
      CHECK(inputs.items.size() + weights.items.size() == whole.items.size());
      CHECK(inputs.kernels + weights.kernels == whole.kernels);
      CHECK(flops_of(inputs) + flops_of(weights) == flops_of(whole));
      CHECK(price(whole, machine).total.value <=
            (1 + 1e-12) * (price(inputs, machine).total.value +
                           price(weights, machine).total.value));
      for (const Item& item : weights.items) CHECK_FALSE(item.again);
    }
}

TEST_CASE("works stay beside their partner while both are in one part") {
  Recipe whole;
  whole.items = {product(0, false), product(0, true), product(2, false),
                 product(2, true), product(3, true)};
  const SplitBackward split = split_backward(whole);
  const Recipe& inputs = split.inputs;
  const Recipe& weights = split.weights;
  REQUIRE(inputs.items.size() == 2);
  CHECK(inputs.items[1].beside == 1);
  REQUIRE(weights.items.size() == 3);
  CHECK(weights.items[1].beside == 1);
  CHECK(weights.items[2].beside == 2);
}
