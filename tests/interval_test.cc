// Intervals of a prediction: what moves them, and what cancels between two.
#include "search/interval.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace ztplan;

namespace {

Swings swing_of(Input input, double fast, double slow) {
  Swings swings{};
  swings.at(static_cast<std::size_t>(input)) = {fast, slow};
  return swings;
}

double width(const StepRatio& ratio) {
  return std::log(ratio.high / ratio.low);
}

}  // namespace

TEST_CASE("swings add up as squares, and none leaves what no work stands for") {
  const StepInterval none = step_interval({1}, {}, rest_of({}));
  CHECK(none.low < Seconds{1});
  CHECK(none.high > Seconds{1});
  Swings both = swing_of(Input::products, -0.3, 0.3);
  both.at(static_cast<std::size_t>(Input::network)) = {-0.4, 0.4};
  const double rest = std::log(none.high / Seconds{1});
  CHECK(std::log(step_interval({1}, both, rest_of({})).high / Seconds{1}) ==
        doctest::Approx(std::sqrt(rest * rest + 0.25)));
}

TEST_CASE("errors that two layouts share cancel between them") {
  const Swings products = swing_of(Input::products, -0.3, 0.3);
  const Swings network = swing_of(Input::network, -0.3, 0.3);
  const SwungStep one{{1}, products};
  const StepRatio same = step_ratio(one, {{1.05}, products});
  const StepRatio other = step_ratio(one, {{1.05}, network});
  CHECK(same.likely == doctest::Approx(1.05));
  CHECK(width(same) < width(other));
  CHECK(is_alike(same));
  CHECK(is_alike(step_ratio(one, {{1.3}, network})));
  CHECK(!is_alike(step_ratio(one, {{1.3}, products})));
}

TEST_CASE("a meter that nobody names widens the interval of a peak") {
  const Bytes peak{100'000'000'000};
  const PeakInterval unnamed = peak_interval(peak, std::nullopt);
  for (const Meter meter : {Meter::allocated, Meter::reserved, Meter::driver}) {
    const PeakInterval named = peak_interval(peak, meter);
    CHECK(unnamed.low <= named.low);
    CHECK(named.high < unnamed.high);
    CHECK(named.low < peak);
    CHECK(peak < named.high);
  }
}
