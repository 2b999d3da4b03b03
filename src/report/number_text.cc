#include "report/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ztplan {
namespace {

struct Scale {
  double factor;
  const char* name;
};
constexpr std::array kScales = {Scale{1e12, "T"}, Scale{1e9, "B"},
                                Scale{1e6, "M"}, Scale{1e3, "K"}};
// From here on three digits would round up to the next scale: 999.5K is 1M.
constexpr double kRoundsUp = 0.9995;

}  // namespace

std::string three_digits(double value) {
  constexpr int kDigits = 3;
  if (value == 0) return "0";
  const int exponent =
      static_cast<int>(std::floor(std::log10(std::abs(value))));
  const int decimals = std::max(0, kDigits - 1 - exponent);
  std::string text = fmt::format("{:.{}f}", value, decimals);
  // 9.996 rounds to 10.00, one digit too many.
  const bool grew = std::abs(std::stod(text)) >= std::pow(10, exponent + 1);
  if (grew && decimals > 0) text.pop_back();
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

std::string count_text(double count) {
  for (const Scale& scale : kScales) {
    if (std::abs(count) < scale.factor * kRoundsUp) continue;
    return three_digits(count / scale.factor) + scale.name;
  }
  if (count == std::floor(count)) return fmt::format("{:.0f}", count);
  return three_digits(count);
}

std::string share_text(double share) {
  constexpr double kPercent = 100;
  return fmt::format("{:.1f}%", share * kPercent);
}

std::string gib_text(Bytes bytes) { return fmt::format("{:.1f}", gib(bytes)); }

std::string grouped(std::int64_t value) {
  std::string digits = fmt::format("{}", value);
  constexpr std::size_t kGroup = 3;
  const std::size_t sign = value < 0 ? 1 : 0;
  for (std::size_t i = digits.size(); i > sign + kGroup;) {
    i -= kGroup;
    digits.insert(i, ",");
  }
  return digits;
}

}  // namespace ztplan
