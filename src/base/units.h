// Quantities that cannot be confused: bytes, seconds, flops and their rates.
// Text forms ("400Gbps") live in quantity_text; nothing here allocates.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>

namespace ztplan {

/// A number with a unit in its type. Sums and ratios of like quantities, and
/// products with plain numbers, are all that is allowed.
template <class Tag, class Rep>
struct Quantity {
  Rep value{};

  friend constexpr auto operator<=>(const Quantity&, const Quantity&) = default;

  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value -= other.value;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, Rep k) {
    return {static_cast<Rep>(a.value * k)};
  }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return a * k; }
  friend constexpr Quantity operator/(Quantity a, Rep k) {
    return {static_cast<Rep>(a.value / k)};
  }
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
  }
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;  // exact
using Seconds = Quantity<struct SecondsTag, double>;
using Flops = Quantity<struct FlopsTag, double>;  // operations, not a rate
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;

constexpr Seconds operator/(Bytes b, BytesPerSecond r) {
  return {static_cast<double>(b.value) / r.value};
}
constexpr Seconds operator/(Flops f, FlopsPerSecond r) {
  return {f.value / r.value};
}

/// ceil(whole / parts). Requires whole >= 0 and parts >= 1.
constexpr std::int64_t divide_up(std::int64_t whole, std::int64_t parts) {
  return (whole + parts - 1) / parts;
}

/// The share of one of `parts` holders, rounded up as padding does.
constexpr Bytes shard(Bytes whole, std::int64_t parts) {
  return {divide_up(whole.value, parts)};
}

/// `value` raised to the next multiple of `unit`. Requires unit >= 1.
constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return divide_up(value, unit) * unit;
}

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;
constexpr std::int64_t kGiB = 1024 * kMiB;

constexpr double gib(Bytes b) {
  return static_cast<double>(b.value) / static_cast<double>(kGiB);
}

}  // namespace ztplan
