#include "calibrate/group_logs.h"

#include <algorithm>
#include <map>

#include "calibrate/fit.h"

namespace ztplan {
namespace {

using Times = std::map<double, std::vector<Seconds>>;  // by bytes, sorted

std::map<std::string, Times> times_of(std::span<const GroupLog> logs) {
  std::map<std::string, Times> times;
  for (const GroupLog& log : logs)
    for (const GroupRow& row : log.rows)
      times[log.probe][row.bytes].push_back(row.seconds);
  for (auto& [probe, by_bytes] : times)
    for (auto& [bytes, all] : by_bytes) std::ranges::sort(all);
  return times;
}

Seconds median(const std::vector<Seconds>& sorted) {
  return sorted[sorted.size() / 2];
}

}  // namespace

void add_logs(MeasuredMachine& machine, std::span<const GroupLog> logs) {
  for (const auto& [probe, by_bytes] : times_of(logs)) {
    std::vector<Sample> samples;
    for (const auto& [bytes, all] : by_bytes)
      samples.push_back({{1, bytes},
                         all.front(),
                         median(all),
                         all.back(),
                         static_cast<int>(all.size())});
    machine.curves[probe] = fit_curve(std::move(samples));
  }
}

std::vector<GroupLog> slow_logs(std::span<const GroupLog> logs) {
  constexpr double kSlow = 1.25;
  constexpr std::size_t kLeast = 3;
  const auto times = times_of(logs);
  std::vector<GroupLog> slow;
  for (const GroupLog& log : logs) {
    const auto is_slow = [&](const GroupRow& row) {
      const auto& all = times.at(log.probe).at(row.bytes);
      return all.size() >= kLeast && row.seconds > median(all) * kSlow;
    };
    const auto count = std::ranges::count_if(log.rows, is_slow);
    if (2 * count > static_cast<std::ptrdiff_t>(log.rows.size()))
      slow.push_back(log);
  }
  return slow;
}

}  // namespace ztplan
