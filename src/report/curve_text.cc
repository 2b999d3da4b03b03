#include "report/curve_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/quantity_text.h"
#include "report/number_text.h"

namespace ztplan {
namespace {

constexpr int kBars = 64;
constexpr int kRows = 10;
constexpr int kAxisWidth = 8;

/// The least and the most held within a part of the step.
struct Bar {
  Bytes least{std::numeric_limits<std::int64_t>::max()};
  Bytes most;
};

// Those of kBars equal parts.
std::vector<Bar> bars_of(const std::vector<CurvePoint>& points, Seconds end) {
  std::vector<Bar> bars(kBars);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Seconds until = i + 1 < points.size() ? points[i + 1].time : end;
    const auto bar = [&](Seconds time) {
      return std::clamp(static_cast<int>(time / end * kBars), 0, kBars - 1);
    };
    for (int b = bar(points[i].time); b <= bar(until); ++b) {
      Bar& held = bars[static_cast<std::size_t>(b)];
      // What ends where the bar begins is not held within it.
      if (until.value > end.value * b / kBars && until > points[i].time)
        held.least = std::min(held.least, points[i].bytes);
      held.most = std::max(held.most, points[i].bytes);
    }
  }
  // Before its first point a stage has held nothing that is known.
  for (Bar& bar : bars) bar.least = std::min(bar.least, bar.most);
  return bars;
}

std::string row_of(const std::vector<Bar>& bars, double level) {
  const auto reaches = [&](Bytes held) {
    return static_cast<double>(held.value) >= level;
  };
  std::string row;
  for (const Bar& bar : bars)
    row += reaches(bar.least) ? '#' : reaches(bar.most) ? ':' : ' ';
  row.erase(row.find_last_not_of(' ') + 1);
  return row;
}

}  // namespace

std::string draw_curve(const std::vector<CurvePoint>& points, Seconds end) {
  if (points.empty() || end.value <= 0) return "";
  const std::vector<Bar> bars = bars_of(points, end);
  const Bytes top = std::ranges::max_element(bars, {}, &Bar::most)->most;
  std::string out;
  for (int row = kRows; row > 0; --row) {
    const double level = static_cast<double>(top.value) * row / kRows;
    // A bar reaches a row when it fills half of it.
    const double least = static_cast<double>(top.value) * (row - 0.5) / kRows;
    out += fmt::format(
        "{:>{}} |{}\n",
        gib_text(Bytes{static_cast<std::int64_t>(std::round(level))}),
        kAxisWidth, row_of(bars, least));
  }
  out +=
      fmt::format("{:>{}} +{}\n", "GiB", kAxisWidth, std::string(kBars, '-'));
  out += fmt::format("{:>{}} 0{:>{}}\n", "", kAxisWidth, text(end), kBars);
  return out;
}

}  // namespace ztplan
