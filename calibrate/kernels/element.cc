#include "calibrate/kernels/element.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace ztplan::kernels {
namespace {

constexpr std::uint32_t kSign = 0x80000000U;

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

/// Half of a bf16's last place, less one when even: a carry rounds up.
std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);
  const std::uint32_t quiet = bits | 0x00400000U;
  const bool is_nan = (bits & ~kSign) > 0x7F800000U;
  return static_cast<std::uint16_t>((is_nan ? quiet : rounded) >> 16U);
}

float from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t magnitude = bits & 0x7FFFU;
  // 5 bits of exponent with bias 15 become 8 with bias 127.
  const std::uint32_t normal = (magnitude << 13U) + ((127U - 15U) << 23U);
  const std::uint32_t special = (magnitude << 13U) | 0x7F800000U;
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24F;
  const std::uint32_t value =
      magnitude >= 0x7C00U
          ? special
          : (magnitude < 0x0400U ? std::bit_cast<std::uint32_t>(subnormal)
                                 : normal);
  return std::bit_cast<float>(sign | value);
}

/// Below the least normal number, adding 0.5 leaves the fp16 subnormal in the
/// last bits of an fp32, rounded by the addition.
std::uint16_t to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits & kSign) >> 16U;
  const std::uint32_t magnitude = bits & ~kSign;
  const std::uint32_t rebiased = magnitude - ((127U - 15U) << 23U);
  const std::uint32_t normal =
      (rebiased + 0xFFFU + ((rebiased >> 13U) & 1U)) >> 13U;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) -
      std::bit_cast<std::uint32_t>(0.5F);
  constexpr std::uint32_t kLeastNormal = 0x38800000U;  // 2^-14
  constexpr std::uint32_t kOverflow = 0x477FF000U;     // 65520 rounds up
  std::uint32_t half = magnitude < kLeastNormal ? subnormal : normal;
  half = magnitude >= kOverflow ? 0x7C00U : half;
  half = magnitude > 0x7F800000U ? 0x7E00U : half;
  return static_cast<std::uint16_t>(sign | half);
}

template <class Convert>
void widen_16(const std::byte* from, std::int64_t size, float* to,
              const Convert& convert) {
  for (std::int64_t i = 0; i < size; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + 2 * i, sizeof bits);
    to[i] = convert(bits);
  }
}

template <class Convert>
void narrow_16(const float* from, std::int64_t size, std::byte* to,
               const Convert& convert) {
  for (std::int64_t i = 0; i < size; ++i) {
    const std::uint16_t bits = convert(from[i]);
    std::memcpy(to + 2 * i, &bits, sizeof bits);
  }
}

float* grown(std::vector<float>& scratch, std::int64_t size) {
  if (static_cast<std::int64_t>(scratch.size()) < size) {
    scratch.resize(static_cast<std::size_t>(size));
  }
  return scratch.data();
}

std::byte* start_of(const Matrix& matrix, std::int64_t row) {
  return matrix.data + row * matrix.stride * bytes_of(matrix.dtype);
}

}  // namespace

void widen(const std::byte* from, Precision dtype, std::int64_t size,
           float* to) {
  if (size == 0) return;
  switch (dtype) {
    case Precision::fp32:
      std::memmove(to, from, static_cast<std::size_t>(size) * sizeof(float));
      return;
    case Precision::fp16:
      return widen_16(from, size, to, from_fp16);
    case Precision::bf16:
      return widen_16(from, size, to, from_bf16);
    case Precision::fp8:
    case Precision::fp4:
      break;
  }
  require(false, "a kernel's arrays have 32 or 16 bits");
}

void narrow(const float* from, Precision dtype, std::int64_t size,
            std::byte* to) {
  if (size == 0) return;
  switch (dtype) {
    case Precision::fp32:
      std::memmove(to, from, static_cast<std::size_t>(size) * sizeof(float));
      return;
    case Precision::fp16:
      return narrow_16(from, size, to, to_fp16);
    case Precision::bf16:
      return narrow_16(from, size, to, to_bf16);
    case Precision::fp8:
    case Precision::fp4:
      break;
  }
  require(false, "a kernel's arrays have 32 or 16 bits");
}

float* floats(const Array& array) {
  require(array.dtype == Precision::fp32, "this array of a kernel is fp32");
  return reinterpret_cast<float*>(array.data);
}

float element(const Array& array, std::int64_t at) {
  float value = 0;
  widen(array.data + at * bytes_of(array.dtype), array.dtype, 1, &value);
  return value;
}

void set_element(const Array& array, std::int64_t at, float value) {
  narrow(&value, array.dtype, 1, array.data + at * bytes_of(array.dtype));
}

const float* read_row(const Matrix& matrix, std::int64_t row,
                      std::vector<float>& scratch) {
  const std::byte* const from = start_of(matrix, row);
  if (matrix.dtype == Precision::fp32) {
    return reinterpret_cast<const float*>(from);
  }
  float* const to = grown(scratch, matrix.columns);
  widen(from, matrix.dtype, matrix.columns, to);
  return to;
}

const float* read_all(const Array& array, std::vector<float>& scratch) {
  return read_row(as_row(array), 0, scratch);
}

void write_row(const float* values, const Matrix& matrix, std::int64_t row) {
  narrow(values, matrix.dtype, matrix.columns, start_of(matrix, row));
}

void add_to_row(const float* values, const Matrix& matrix, std::int64_t row) {
  std::byte* const data = start_of(matrix, row);
  for_pieces(matrix.columns, [&](std::int64_t from, std::int64_t size) {
    float sums[1024];
    std::byte* const piece = data + from * bytes_of(matrix.dtype);
    widen(piece, matrix.dtype, size, sums);
    for (std::int64_t i = 0; i < size; ++i) sums[i] += values[from + i];
    narrow(sums, matrix.dtype, size, piece);
  });
}

void put_row(const float* values, const Matrix& matrix, std::int64_t row,
             bool accumulate) {
  if (accumulate) return add_to_row(values, matrix, row);
  write_row(values, matrix, row);
}

Matrix widened(const Matrix& matrix, std::vector<float>& values) {
  if (matrix.dtype == Precision::fp32) return matrix;
  values.resize(static_cast<std::size_t>(matrix.rows * matrix.columns));
  for (std::int64_t i = 0; i < matrix.rows; ++i)
    widen(start_of(matrix, i), matrix.dtype, matrix.columns,
          values.data() + i * matrix.columns);
  return {reinterpret_cast<std::byte*>(values.data()), matrix.rows,
          matrix.columns, matrix.columns, Precision::fp32};
}

Matrix as_row(const Array& array) {
  return {array.data, 1, array.size, array.size, array.dtype};
}

}  // namespace ztplan::kernels
