// Products of sizes that a user may type, kept from overflowing: what exceeds
// `kBeyond` bytes fits no tier of any machine, whatever it is exactly.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ztplan {

constexpr std::int64_t kBeyond = std::int64_t{1} << 55;  // 36 PB

/// a * b, at most kBeyond. Requires a, b >= 0.
constexpr std::int64_t capped_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  const bool overflows = __builtin_mul_overflow(a, b, &product);
  return overflows ? kBeyond : std::min(product, kBeyond);
}

/// sum + a * b, at most kBeyond. Requires 0 <= sum <= kBeyond.
constexpr std::int64_t capped_sum(std::int64_t sum, std::int64_t a,
                                  std::int64_t b) {
  return std::min(sum + capped_product(a, b), kBeyond);
}

}  // namespace ztplan
