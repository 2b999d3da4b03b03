#include "strategy/field_text.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"
#include "base/quote.h"

namespace ztplan {

void refuse(std::string_view key, std::string_view value,
            std::string_view allowed) {
  throw Error(fmt::format("{} must be {}, not {}", key, allowed, quote(value)));
}

std::optional<int> integer_in(std::string_view text, int low, int high) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  const bool whole = problem == std::errc{} && stop == end;
  if (!whole || value < low || value > high) return std::nullopt;
  return value;
}

int parse_integer(std::string_view key, std::string_view text, int low,
                  int high) {
  const std::optional<int> value = integer_in(text, low, high);
  if (value) return *value;
  refuse(key, text, fmt::format("a whole number from {} to {}", low, high));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const std::size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

}  // namespace ztplan
