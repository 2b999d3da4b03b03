#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "calibrate/kernels/element.h"
#include "calibrate/kernels/run_on_cpu.h"

namespace ztplan::kernels {
namespace {

/// Orders as the magnitude does, and NaN above all.
std::uint32_t rank_of(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU;
}

/// Places of the `count` largest magnitudes, ascending.
std::vector<std::int32_t> largest(const float* values, std::int64_t size,
                                  std::int64_t count) {
  std::vector<std::int32_t> places(static_cast<std::size_t>(size));
  std::iota(places.begin(), places.end(), 0);
  std::ranges::nth_element(places, places.begin() + count,
                           [&](std::int32_t a, std::int32_t b) {
                             const std::uint32_t of_a = rank_of(values[a]),
                                                 of_b = rank_of(values[b]);
                             return of_a != of_b ? of_a > of_b : a < b;
                           });
  places.resize(static_cast<std::size_t>(count));
  std::ranges::sort(places);
  return places;
}

}  // namespace

void run(const SelectLargest& kernel) {
  require(kernel.values.size <= kernel.gradient.size,
          "no more values are chosen than there are");
  std::vector<float> scratch;
  add_to_row(read_all(kernel.gradient, scratch), as_row(kernel.feedback), 0);
  float* const feedback = floats(kernel.feedback);
  const std::vector<std::int32_t> places =
      largest(feedback, kernel.feedback.size, kernel.values.size);
  for (std::int64_t i = 0; i < kernel.values.size; ++i) {
    const std::int32_t place = places[static_cast<std::size_t>(i)];
    kernel.places.data[i] = place;
    set_element(kernel.values, i, feedback[place]);
    feedback[place] -= element(kernel.values, i);
  }
}

void run(const AddAtPlaces& kernel) {
  for (std::int64_t i = 0; i < kernel.places.size; ++i) {
    const std::int64_t place = kernel.places.data[i];
    set_element(kernel.out, place,
                element(kernel.out, place) + element(kernel.values, i));
  }
}

}  // namespace ztplan::kernels
