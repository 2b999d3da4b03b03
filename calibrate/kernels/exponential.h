// The exponential in fp32 without a branch or a call, so that loops over it
// become vectors. After Cephes' expf (Moshier, netlib.org/cephes/single.tgz,
// expf.c): e^x = 2^n e^r with |r| <= ln 2 / 2 and a polynomial for e^r. Errs by
// less than 3 units in the last place (tests/kernels_exponential_test.cc).
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace ztplan::kernels {

/// e^x; 0 below -87, where e^x leaves the normal numbers, and e^88 above 88.
/// NaN stays NaN.
inline float exponential(float x) {
  constexpr float kLeast = -87, kMost = 88;
  // Adding 1.5 * 2^23 leaves the nearest whole number in the last bits.
  constexpr float kToWhole = 12582912;
  constexpr float kLog2OfE = 1.44269504088896341F;
  constexpr float kLn2Upper = 0.693359375F, kLn2Lower = -2.12194440e-4F;
  const float below = x > kMost ? kMost : x;
  const float bounded = below < kLeast ? kLeast : below;
  const float shifted = bounded * kLog2OfE + kToWhole;
  const float n = shifted - kToWhole;
  const float r = bounded - n * kLn2Upper - n * kLn2Lower;
  float sum = 1.9875691500e-4F;
  sum = sum * r + 1.3981999507e-3F;
  sum = sum * r + 8.3334519073e-3F;
  sum = sum * r + 4.1665795894e-2F;
  sum = sum * r + 1.6666665459e-1F;
  sum = sum * r + 5.0000001201e-1F;
  sum = sum * r * r + r + 1;
  constexpr std::uint32_t kBias = 127, kMantissa = 23;
  const std::uint32_t power = (std::bit_cast<std::uint32_t>(shifted) + kBias)
                              << kMantissa;
  const float e = sum * std::bit_cast<float>(power);
  const float small = x < kLeast ? 0 : e;
  return x > kMost ? std::numeric_limits<float>::infinity() : small;
}

}  // namespace ztplan::kernels
