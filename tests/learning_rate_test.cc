#include "exec/learning_rate.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace ztplan;

TEST_CASE("the learning rate climbs, bends and stays") {
  const LearningRate schedule{.peak = 1, .floor = 0.1, .climb = 3, .steps = 15};
  const double eighth = std::sqrt(0.5);  // cos(pi / 4)
  struct Row {
    std::int64_t step;
    double rate;
  };
  const Row rows[] = {{0, 0.25},
                      {1, 0.5},
                      {2, 0.75},
                      {3, 1},
                      {6, 0.1 + 0.9 * (1 + eighth) / 2},
                      {7, 0.1 + 0.9 * 0.75},  // cos(pi / 3) = 1/2
                      {9, 0.55},
                      {11, 0.1 + 0.9 * 0.25},
                      {15, 0.1},
                      {1000, 0.1}};
  for (const Row& row : rows) {
    CAPTURE(row.step);
    CHECK(rate_at(schedule, row.step) == doctest::Approx(row.rate));
  }
}

TEST_CASE("a run without a climb begins at the peak") {
  const LearningRate schedule{.peak = 2, .floor = 0, .climb = 0, .steps = 10};
  CHECK(rate_at(schedule, 0) == 2);
  for (int step = 1; step <= 10; ++step) {
    CHECK(rate_at(schedule, step) < rate_at(schedule, step - 1));
  }
}

TEST_CASE("a run that ends as it climbs keeps its floor") {
  const LearningRate schedule{.peak = 2, .floor = 1, .climb = 4, .steps = 4};
  CHECK(rate_at(schedule, 3) == doctest::Approx(1.6));
  CHECK(rate_at(schedule, 4) == 1);
}
