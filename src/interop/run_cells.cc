#include "interop/run_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace ztplan {
namespace {

template <class T>
std::optional<T> parse(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc{} || stop != end) return std::nullopt;
  return value;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

void check_cells(const CsvRow& row) {
  if (std::string fault = row.fault(); !fault.empty()) throw Skip(fault);
}

std::string folded(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return "";
  const std::size_t last = text.find_last_not_of(kBlanks);
  std::string out(text.substr(first, last - first + 1));
  std::ranges::transform(out, out.begin(), lower);
  return out;
}

std::optional<int> whole_cell(const CsvRow& row, std::string_view column,
                              int most) {
  const std::string cell = folded(row.get(column));
  if (cell.empty()) return std::nullopt;
  const auto value = parse<int>(cell);
  if (!value || *value < 0 || *value > most) {
    throw Skip(fmt::format("{} is no whole number from 0 to {}", column, most));
  }
  return value;
}

std::optional<double> number_cell(const CsvRow& row, std::string_view column) {
  const std::string cell = folded(row.get(column));
  if (cell.empty()) return std::nullopt;
  const auto value = parse<double>(cell);
  if (!value || !std::isfinite(*value) || *value <= 0) {
    throw Skip(fmt::format("{} is no positive number", column));
  }
  return value;
}

bool says(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

bool notes_say(const CsvRow& row, std::string_view words) {
  return says(folded(row.get("notes")), folded(words));
}

bool is_of_megatron_bridge(const CsvRow& row) {
  return row.get("source").starts_with("megatron-bridge");
}

std::optional<int> noted_number(const CsvRow& row, std::string_view words) {
  const std::string notes = folded(row.get("notes"));
  const std::size_t at = notes.find(folded(words));
  if (at == std::string::npos) return std::nullopt;
  const char* start = notes.data() + at + words.size();
  int value = 0;
  const auto [stop, problem] =
      std::from_chars(start, notes.data() + notes.size(), value);
  if (problem != std::errc{} || value < 0) return std::nullopt;
  return value;
}

}  // namespace ztplan
