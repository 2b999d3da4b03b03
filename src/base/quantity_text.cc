#include "base/quantity_text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/quote.h"

namespace ztplan {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

/// Decimal prefixes of SI, binary ones of IEC 80000-13.
constexpr std::array kDecimal{Unit{"", 1},     Unit{"k", 1e3}, Unit{"K", 1e3},
                              Unit{"M", 1e6},  Unit{"G", 1e9}, Unit{"T", 1e12},
                              Unit{"P", 1e15}, Unit{"E", 1e18}};
constexpr std::array kDecimalOrBinary{
    Unit{"", 1},        Unit{"k", 1e3},     Unit{"K", 1e3},
    Unit{"M", 1e6},     Unit{"G", 1e9},     Unit{"T", 1e12},
    Unit{"P", 1e15},    Unit{"Ki", 0x1p10}, Unit{"Mi", 0x1p20},
    Unit{"Gi", 0x1p30}, Unit{"Ti", 0x1p40}, Unit{"Pi", 0x1p50}};
/// Prefixes of counts: B is a billion, as in "7B parameters".
constexpr std::array kCounts{Unit{"", 1},    Unit{"k", 1e3}, Unit{"K", 1e3},
                             Unit{"M", 1e6}, Unit{"B", 1e9}, Unit{"G", 1e9},
                             Unit{"T", 1e12}};

constexpr std::array kByteUnits{Unit{"B", 1}};
constexpr double kBit = 0.125;  // bytes
constexpr std::array kRateUnits{Unit{"B/s", 1}, Unit{"Bps", 1},
                                Unit{"bps", kBit}, Unit{"b/s", kBit},
                                Unit{"bit/s", kBit}};
constexpr std::array kFlopsUnits{Unit{"FLOPS", 1}, Unit{"FLOP/s", 1},
                                 Unit{"FLOPs/s", 1}};
constexpr std::array kTimeUnits{
    Unit{"s", 1},     Unit{"ms", 1e-3}, Unit{"us", 1e-6}, Unit{"µs", 1e-6},
    Unit{"μs", 1e-6}, Unit{"ns", 1e-9}, Unit{"min", 60},  Unit{"h", 3600}};

/// Past these a value is a slip, and arithmetic on it might overflow.
constexpr double kMostBytes = 0x1p60;  // 1 EiB
constexpr double kMostRate = 1e18;     // B/s
constexpr double kMostFlops = 1e24;    // FLOPS
constexpr double kMostSeconds = 1e9;   // 30 years
constexpr double kMostCount = 1e18;    // tokens, parameters
/// Below these, but for none at all, a division by it might overflow.
constexpr double kLeastRate = 1e3;   // B/s: a modem's
constexpr double kLeastFlops = 1e6;  // FLOPS

/// What a parser expects, in words.
struct Expected {
  const char* what;
  const char* example;
  double most;
  double least = 0;
};

[[noreturn]] void refuse(std::string_view text, const std::string& why,
                         const Expected& expected) {
  throw Error(
      fmt::format("{}: {}", quote(text), why),
      fmt::format("expected {}, such as {}", expected.what, expected.example));
}

struct Parts {
  double number;
  std::string_view unit;
};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

Parts split(std::string_view text, const Expected& expected) {
  const std::string_view body = trimmed(text);
  if (body.starts_with('-')) refuse(text, "negative", expected);
  const bool starts_well =
      !body.empty() && ((body[0] >= '0' && body[0] <= '9') || body[0] == '.');
  if (!starts_well) refuse(text, "does not start with a number", expected);
  Parts parts{};
  const auto [end, error] =
      std::from_chars(body.data(), body.data() + body.size(), parts.number);
  if (error == std::errc::result_out_of_range) {
    refuse(text, "a number out of range", expected);
  }
  if (error != std::errc{}) refuse(text, "not a number", expected);
  parts.unit =
      trimmed(body.substr(static_cast<std::size_t>(end - body.data())));
  return parts;
}

/// The number before the unit when it is all digits: exact past 2^53.
std::optional<std::int64_t> whole_number(std::string_view text) {
  const std::string_view body = trimmed(text);
  std::int64_t number = 0;
  const char* last = body.data() + body.size();
  const auto [end, error] = std::from_chars(body.data(), last, number);
  const std::string_view rest(end, static_cast<std::size_t>(last - end));
  const bool goes_on =
      rest.starts_with('.') || rest.starts_with('e') || rest.starts_with('E');
  if (error != std::errc{} || goes_on) return std::nullopt;
  return number;
}

/// The factor of prefix and unit together; 0 when `unit` is not one of them.
double factor_of(std::string_view unit, std::span<const Unit> prefixes,
                 std::span<const Unit> units) {
  for (const Unit& base : units) {
    if (!unit.ends_with(base.name)) continue;
    const auto prefix = unit.substr(0, unit.size() - base.name.size());
    for (const Unit& known : prefixes) {
      if (prefix == known.name) return known.factor * base.factor;
    }
  }
  return 0;
}

double checked(std::string_view text, double value, const Expected& expected) {
  if (!(value <= expected.most)) refuse(text, "too large", expected);
  if (value > 0 && value < expected.least) refuse(text, "too small", expected);
  return value;
}

double parse_with(std::string_view text, std::span<const Unit> prefixes,
                  std::span<const Unit> units, const Expected& expected) {
  const Parts parts = split(text, expected);
  if (parts.unit.empty()) refuse(text, "has no unit", expected);
  const double factor = factor_of(parts.unit, prefixes, units);
  if (factor == 0) {
    refuse(text, "unknown unit " + quote(parts.unit), expected);
  }
  return checked(text, parts.number * factor, expected);
}

std::string three_digits(double value) {
  const double size = std::abs(value);
  if (size < 9.995) return fmt::format("{:.2f}", value);
  if (size < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

/// `value` in the largest of `units` (ascending) of which it holds one.
std::string scaled(double value, double step, std::span<const Unit> units) {
  std::size_t i = 0;
  const auto next_holds = [&] {
    return std::round(std::abs(value) / units[i].factor) >= step;
  };
  while (i + 1 < units.size() && next_holds()) ++i;
  return three_digits(value / units[i].factor) + " " +
         std::string(units[i].name);
}

constexpr std::array kByteTexts{Unit{"B", 1},        Unit{"KiB", 0x1p10},
                                Unit{"MiB", 0x1p20}, Unit{"GiB", 0x1p30},
                                Unit{"TiB", 0x1p40}, Unit{"PiB", 0x1p50}};
constexpr std::array kRateTexts{Unit{"B/s", 1},     Unit{"KB/s", 1e3},
                                Unit{"MB/s", 1e6},  Unit{"GB/s", 1e9},
                                Unit{"TB/s", 1e12}, Unit{"PB/s", 1e15}};
constexpr std::array kFlopsTexts{Unit{"FLOPS", 1},     Unit{"KFLOPS", 1e3},
                                 Unit{"MFLOPS", 1e6},  Unit{"GFLOPS", 1e9},
                                 Unit{"TFLOPS", 1e12}, Unit{"PFLOPS", 1e15},
                                 Unit{"EFLOPS", 1e18}};
constexpr std::array kTimeTexts{Unit{"ns", 1e-9}, Unit{"us", 1e-6},
                                Unit{"ms", 1e-3}, Unit{"s", 1}};

constexpr double kThousand = 1000;
constexpr double kBinaryStep = 1024;

}  // namespace

Bytes parse_bytes(std::string_view text) {
  const Expected expected{"bytes", "80GiB or 80GB", kMostBytes};
  const Parts parts = split(text, expected);
  if (parts.unit.ends_with('b')) {
    refuse(text, "b is a bit, a byte is B", expected);
  }
  const double bytes = parse_with(text, kDecimalOrBinary, kByteUnits, expected);
  const auto factor = static_cast<std::int64_t>(
      factor_of(parts.unit, kDecimalOrBinary, kByteUnits));
  const std::optional<std::int64_t> whole = whole_number(text);
  if (whole) return {*whole * factor};  // within kMostBytes, as `bytes` is
  return {static_cast<std::int64_t>(std::round(bytes))};
}

BytesPerSecond parse_rate(std::string_view text) {
  return {parse_with(text, kDecimalOrBinary, kRateUnits,
                     {"a rate of 1KB/s or more", "450GB/s or 400Gbps",
                      kMostRate, kLeastRate})};
}

FlopsPerSecond parse_flops_rate(std::string_view text) {
  return {parse_with(
      text, kDecimal, kFlopsUnits,
      {"dense operations a second", "989TFLOPS", kMostFlops, kLeastFlops})};
}

Seconds parse_seconds(std::string_view text) {
  constexpr std::array kNoPrefix{Unit{"", 1}};
  return {parse_with(text, kNoPrefix, kTimeUnits,
                     {"a time", "6us or 1.5s", kMostSeconds})};
}

double parse_count(std::string_view text) {
  const Expected expected{"a count", "10T, 50.4B or 300M", kMostCount};
  constexpr std::array kNoUnit{Unit{"", 1}};
  const Parts parts = split(text, expected);
  const double factor = factor_of(parts.unit, kCounts, kNoUnit);
  if (factor == 0) {
    refuse(text, "unknown prefix " + quote(parts.unit), expected);
  }
  return checked(text, parts.number * factor, expected);
}

std::string text(Bytes bytes) {
  if (std::abs(static_cast<double>(bytes.value)) < kBinaryStep) {
    return fmt::format("{} B", bytes.value);
  }
  return scaled(static_cast<double>(bytes.value), kBinaryStep, kByteTexts);
}

std::string text(Seconds seconds) {
  if (seconds.value == 0) return "0 s";
  return scaled(seconds.value, kThousand, kTimeTexts);
}

std::string text(BytesPerSecond rate) {
  return scaled(rate.value, kThousand, kRateTexts);
}

std::string text(FlopsPerSecond rate) {
  return scaled(rate.value, kThousand, kFlopsTexts);
}

std::string exact_text(Bytes bytes) {
  for (std::size_t i = kByteTexts.size() - 1; i > 0; --i) {
    const auto unit = static_cast<std::int64_t>(kByteTexts[i].factor);
    if (bytes.value == 0 || bytes.value % unit != 0) continue;
    return fmt::format("{}{}", bytes.value / unit, kByteTexts[i].name);
  }
  return fmt::format("{}B", bytes.value);
}

std::string exact_text(BytesPerSecond rate) {
  for (std::size_t i = kRateTexts.size() - 1; i > 0; --i) {
    const double shown = rate.value / kRateTexts[i].factor;
    const bool exact = shown * kRateTexts[i].factor == rate.value;
    if (shown < 1 || !exact) continue;
    return fmt::format("{}{}", shown, kRateTexts[i].name);
  }
  return fmt::format("{}B/s", rate.value);
}

}  // namespace ztplan
