#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "calibrate/kernels/exponential.h"

using ztplan::kernels::exponential;

TEST_CASE("the exponential is that of double to three last places") {
  double most = 0;
  for (float x = -87; x <= 88; x += 1.0F / 1024) {
    const double expected = std::exp(double{x});
    most = std::max(most, std::abs(exponential(x) - expected) / expected);
  }
  CHECK(most < 3 * 0x1p-24);
  CHECK(exponential(0) == 1);
}

TEST_CASE("the exponential has ends and keeps what is no number") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(exponential(-kInfinity) == 0);
  CHECK(exponential(-88) == 0);
  CHECK(exponential(kInfinity) == kInfinity);
  CHECK(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}
