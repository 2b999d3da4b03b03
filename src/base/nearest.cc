#include "base/nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <optional>
#include <utility>

namespace ztplan {
namespace {

constexpr std::size_t kLongest = 100;   // a longer text is not a name
constexpr std::size_t kShortStart = 3;  // letters that can stand for a name

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

/// Its letters and digits alone.
std::string bare(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) out += c;
  }
  return out;
}

/// Insertions, deletions, substitutions and swaps of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1),
      row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      const bool swapped =
          i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

/// How `slip` may stand for `name`, best first.
enum class Likeness { same, begun, close, extended, far };

Likeness kind_of(const std::string& slip, const std::string& name,
                 std::size_t distance) {
  if (bare(slip) == bare(name)) return Likeness::same;
  if (slip.size() >= kShortStart && name.starts_with(slip))
    return Likeness::begun;
  const std::size_t longest = std::max(name.size(), slip.size());
  if (distance * 3 <= longest) return Likeness::close;
  const bool extends = name.size() >= kShortStart && slip.starts_with(name);
  return extends ? Likeness::extended : Likeness::far;
}

}  // namespace

std::string nearest_name(std::string_view wrong,
                         std::span<const std::string> candidates) {
  if (wrong.empty() || wrong.size() > kLongest) return "";
  const std::string slip = lower(wrong);
  std::string best;
  std::pair least(Likeness::far, std::size_t{0});
  for (const std::string& candidate : candidates) {
    const std::string name = lower(candidate);
    const std::size_t distance = edit_distance(slip, name);
    const std::pair likeness(kind_of(slip, name, distance), distance);
    if (likeness < least) {
      least = likeness;
      best = candidate;
    }
  }
  return best;
}

std::string nearest_values(long wanted, std::span<const long> values) {
  std::optional<long> below, above;
  for (const long value : values) {
    if (value <= wanted) below = std::max(below.value_or(value), value);
    if (value >= wanted) above = std::min(above.value_or(value), value);
  }
  if (!below && !above) return "";
  if (!below || below == above) return std::to_string(*above);
  if (!above) return std::to_string(*below);
  return std::to_string(*below) + " or " + std::to_string(*above);
}

}  // namespace ztplan
