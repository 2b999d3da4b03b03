#include "exec/rank_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace ztplan {
namespace {

constexpr std::int64_t kBlock = 1024;  // elements; 4 KiB stay in a first cache

/// The upper half of a float.
struct Bf16 {
  static float widen(std::uint16_t bits) {
    return std::bit_cast<float>(std::uint32_t{bits} << 16U);
  }
  static std::uint16_t narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16U) & 1U);
    const std::uint32_t quiet = bits | 0x00400000U;
    return static_cast<std::uint16_t>((std::isnan(value) ? quiet : rounded) >>
                                      16U);
  }
};

/// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
struct Fp16 {
  static float widen(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000U) << 16U;
    const std::uint32_t magnitude = bits & 0x7fffU;
    float value = std::bit_cast<float>(magnitude << 13U) * 0x1p112F;
    if (magnitude >= 0x7c00U)
      value = std::bit_cast<float>((magnitude << 13U) | 0x7f800000U);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  static std::uint16_t narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint16_t>(((bits >> 16U) & 0x8000U) |
                                      narrow_magnitude(bits & 0x7fffffffU));
  }

 private:
  static std::uint32_t narrow_magnitude(std::uint32_t bits) {
    if (bits > 0x7f800000U) return 0x7e00U;   // NaN
    if (bits >= 0x477ff000U) return 0x7c00U;  // 65520 and above round to 65536
    if (bits < 0x38800000U) {                 // below 2^-14 steps are of 2^-24
      const float steps = std::bit_cast<float>(bits) * 0x1p24F;
      return static_cast<std::uint32_t>(std::nearbyint(steps));
    }
    return (bits - 0x38000000U + 0xfffU + ((bits >> 13U) & 1U)) >> 13U;
  }
};

template <class Type>
void widen_16(const std::byte* from, std::int64_t size, float* to) {
  for (std::int64_t i = 0; i < size; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + 2 * i, sizeof bits);
    to[i] = Type::widen(bits);
  }
}

template <class Type>
void narrow_16(const float* from, std::int64_t size, std::byte* to) {
  for (std::int64_t i = 0; i < size; ++i) {
    const std::uint16_t bits = Type::narrow(from[i]);
    std::memcpy(to + 2 * i, &bits, sizeof bits);
  }
}

void widen(const std::byte* from, Precision dtype, std::int64_t size,
           float* to) {
  if (dtype == Precision::bf16) return widen_16<Bf16>(from, size, to);
  if (dtype == Precision::fp16) return widen_16<Fp16>(from, size, to);
  std::memcpy(to, from, static_cast<std::size_t>(size) * sizeof(float));
}

void narrow(const float* from, Precision dtype, std::int64_t size,
            std::byte* to) {
  if (dtype == Precision::bf16) return narrow_16<Bf16>(from, size, to);
  if (dtype == Precision::fp16) return narrow_16<Fp16>(from, size, to);
  std::memcpy(to, from, static_cast<std::size_t>(size) * sizeof(float));
}

/// A NaN on either side stays.
float larger(float a, float b) { return b > a || std::isnan(b) ? b : a; }

void join(Reduction how, const float* more, std::int64_t size, float* result) {
  if (how == Reduction::sum) {
    for (std::int64_t i = 0; i < size; ++i) result[i] += more[i];
  } else {
    for (std::int64_t i = 0; i < size; ++i)
      result[i] = larger(result[i], more[i]);
  }
}

}  // namespace

void combine(Reduction how, Precision dtype, std::int64_t elements,
             std::span<const std::byte* const> from,
             std::span<std::byte* const> to) {
  if (dtype == Precision::fp8)
    throw Error("ranks cannot add in fp8", "use bf16, fp16 or fp32");
  float result[kBlock], more[kBlock];
  for (std::int64_t done = 0; done < elements; done += kBlock) {
    const std::int64_t size = std::min(kBlock, elements - done);
    const std::int64_t at = done * bytes_of(dtype);
    widen(from.front() + at, dtype, size, result);
    for (const std::byte* rank : from.subspan(1)) {
      widen(rank + at, dtype, size, more);
      join(how, more, size, result);
    }
    for (std::byte* rank : to) narrow(result, dtype, size, rank + at);
  }
}

}  // namespace ztplan
