// Elements of any dtype as fp32: how kernels read and write what they are
// given. 16-bit elements round to nearest even; NaN stays NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "calibrate/kernels/array.h"

namespace ztplan::kernels {

/// `size` elements at `from`, widened into `to`. Requires 32 or 16 bits.
void widen(const std::byte* from, Precision dtype, std::int64_t size,
           float* to);
/// `size` values of `from`, rounded to `dtype`, at `to`.
void narrow(const float* from, Precision dtype, std::int64_t size,
            std::byte* to);

/// The values of fp32 memory itself. Requires fp32.
float* floats(const Array& array);

/// Element `at` of `array`.
float element(const Array& array, std::int64_t at);
void set_element(const Array& array, std::int64_t at, float value);

/// Row `row` of `matrix`: its own memory where that is fp32, else widened into
/// `scratch`, which grows as needed.
const float* read_row(const Matrix& matrix, std::int64_t row,
                      std::vector<float>& scratch);
/// All of `array`, likewise.
const float* read_all(const Array& array, std::vector<float>& scratch);
void write_row(const float* values, const Matrix& matrix, std::int64_t row);
/// row += values, rounded once.
void add_to_row(const float* values, const Matrix& matrix, std::int64_t row);
/// Either of the two.
void put_row(const float* values, const Matrix& matrix, std::int64_t row,
             bool accumulate);

/// `matrix` itself where it is fp32, else a copy in `values`.
Matrix widened(const Matrix& matrix, std::vector<float>& values);

/// `array` as a matrix of one row.
Matrix as_row(const Array& array);

/// Calls f(from, size) for pieces of an array that fit the first cache.
template <class F>
void for_pieces(std::int64_t size, const F& f) {
  constexpr std::int64_t kPiece = 1024;
  for (std::int64_t from = 0; from < size; from += kPiece) {
    f(from, from + kPiece < size ? kPiece : size - from);
  }
}

/// The sum of term(i) for i below `size`, in an order that depends on the size
/// alone and lets a processor add several at once.
template <class Term>
float sum_of(std::int64_t size, const Term& term) {
  constexpr std::int64_t kLanes = 16;
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += term(i + lane);
  for (std::int64_t lane = 0; i < size; ++i, ++lane) lanes[lane] += term(i);
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2)
    for (std::int64_t lane = 0; lane < half; ++lane)
      lanes[lane] += lanes[lane + half];
  return lanes[0];
}

}  // namespace ztplan::kernels
