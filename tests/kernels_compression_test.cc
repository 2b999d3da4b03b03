#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/tensors.h"

using namespace ztplan;

namespace {

struct Chosen {
  std::vector<std::int32_t> places;
  Doubles values, feedback;
};

Chosen select(Tensor& gradient, Tensor& feedback, std::int64_t count,
              Precision dtype) {
  std::vector<std::int32_t> places(static_cast<std::size_t>(count));
  Tensor values(1, count, count, dtype);
  run_on_cpu(kernels::SelectLargest{gradient.array(),
                                    feedback.array(),
                                    values.array(),
                                    {places.data(), count}});
  return {places, values.values(), feedback.values()};
}

/// Places of the `count` largest magnitudes, by sorting them all.
std::vector<std::int32_t> slow_places(const Doubles& values,
                                      std::size_t count) {
  std::vector<std::int32_t> places(values.size());
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(places, [&](std::int32_t a, std::int32_t b) {
    return std::abs(values[static_cast<std::size_t>(a)]) >
           std::abs(values[static_cast<std::size_t>(b)]);
  });
  places.resize(count);
  std::ranges::sort(places);
  return places;
}

}  // namespace

TEST_CASE("the largest are taken out of gradient and feedback, no bit lost") {
  for (const Precision dtype :
       {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (const std::int64_t count : {0, 1, 37, 200}) {
      Tensor gradient(1, 200, 200, dtype);
      gradient.fill(1);
      Tensor feedback = random_tensor(1, 200, 2), both = zero_tensor(1, 200);
      Doubles sum = feedback.values();
      const Doubles added = gradient.values();
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += added[i];
      both.set(sum);
      const Chosen chosen = select(gradient, feedback, count, dtype);
      CAPTURE(count);
      CHECK(chosen.places ==
            slow_places(both.values(), static_cast<std::size_t>(count)));
      Doubles whole = chosen.feedback;  // and what was taken: the sum again
      for (std::size_t i = 0; i < chosen.places.size(); ++i) {
        whole[static_cast<std::size_t>(chosen.places[i])] += chosen.values[i];
      }
      CHECK(whole == both.values());
    }
  }
}

TEST_CASE("of equal magnitudes the lower place is taken") {
  Tensor gradient = zero_tensor(1, 6), feedback = gradient;
  gradient.set({1, -2, 2, 0.5, -2, 2});
  const Chosen chosen = select(gradient, feedback, 3, Precision::fp32);
  CHECK(chosen.places == std::vector<std::int32_t>{1, 2, 4});
  CHECK(chosen.values == Doubles{-2, 2, -2});
  CHECK(chosen.feedback == Doubles{1, 0, 0, 0.5, 0, 2});
}

TEST_CASE("what is left out is sent by a later step") {
  Tensor gradient = zero_tensor(1, 2), feedback = gradient;
  gradient.set({4, 3});
  CHECK(select(gradient, feedback, 1, Precision::fp32).values == Doubles{4});
  // The second place has 6 by now, the first 4.
  CHECK(select(gradient, feedback, 1, Precision::fp32).values == Doubles{6});
}

TEST_CASE("values are added at their places, again at a place named again") {
  Tensor values = zero_tensor(1, 3), out = zero_tensor(1, 4);
  values.set({1, 2, 4});
  out.set({8, 8, 8, 8});
  std::vector<std::int32_t> places{3, 0, 3};
  run_on_cpu(
      kernels::AddAtPlaces{values.array(), {places.data(), 3}, out.array()});
  CHECK(out.values() == Doubles{10, 8, 8, 13});
}
