#include "report/curve_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/quantity_text.h"
#include "report/number_text.h"

namespace ztplan {
namespace {

constexpr int kBars = 64;
constexpr int kRows = 10;
constexpr int kAxisWidth = 8;

// The most held within each of kBars equal parts of the step.
std::vector<Bytes> fullest(const std::vector<CurvePoint>& points, Seconds end) {
  std::vector<Bytes> bars(kBars);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Seconds until = i + 1 < points.size() ? points[i + 1].time : end;
    const auto bar = [&](Seconds time) {
      return std::clamp(static_cast<int>(time / end * kBars), 0, kBars - 1);
    };
    for (int b = bar(points[i].time); b <= bar(until); ++b) {
      Bytes& most = bars[static_cast<std::size_t>(b)];
      most = std::max(most, points[i].bytes);
    }
  }
  return bars;
}

std::string row_of(const std::vector<Bytes>& bars, double least) {
  std::string row;
  for (const Bytes bar : bars) {
    row += static_cast<double>(bar.value) >= least ? '#' : ' ';
  }
  row.erase(row.find_last_not_of(' ') + 1);
  return row;
}

}  // namespace

std::string draw_curve(const std::vector<CurvePoint>& points, Seconds end) {
  if (points.empty() || end.value <= 0) return "";
  const std::vector<Bytes> bars = fullest(points, end);
  const Bytes top = *std::ranges::max_element(bars);
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
