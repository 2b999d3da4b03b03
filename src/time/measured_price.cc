#include "time/measured_price.h"

#include <charconv>
#include <cmath>
#include <set>

#include "spec/measured.h"
#include "step/demand.h"

namespace ztplan {
namespace {

/// A curve, and what its time is to be multiplied by.
struct Found {
  const ProbeCurve* curve = nullptr;
  int ranks = 1;  // of the curve
};

/// Of "all_reduce/4".
int ranks_in(const std::string& probe) {
  const std::size_t slash = probe.rfind('/');
  int ranks = 0;
  std::from_chars(probe.data() + slash + 1, probe.data() + probe.size(), ranks);
  return ranks;
}

double distance(int ranks, int others) {
  return std::abs(std::log(static_cast<double>(ranks) / others));
}

Found nearest_group(const MeasuredMachine& machine, const std::string& probe,
                    int ranks) {
  const std::string of_op = probe.substr(0, probe.rfind('/') + 1);
  Found found;
  for (auto at = machine.curves.lower_bound(of_op);
       at != machine.curves.end() && at->first.starts_with(of_op); ++at) {
    const int here = ranks_in(at->first);
    if (found.curve == nullptr ||
        distance(ranks, here) < distance(ranks, found.ranks))
      found = {&at->second, here};
  }
  return found;
}

Found find_curve(const MeasuredMachine& machine, const std::string& probe,
                 int ranks) {
  const auto at = machine.curves.find(probe);
  if (at != machine.curves.end()) return {&at->second, ranks};
  return ranks > 1 ? nearest_group(machine, probe, ranks) : Found{};
}

}  // namespace

std::optional<Seconds> measured_price(const Work& work,
                                      const Calibration& calibration) {
  if (!calibration.measured) return {};
  const MeasuredMachine& machine = *calibration.measured;
  const Demand demand = demand_of(work);
  const int ranks = ranks_of(work);
  const auto [curve, measured_ranks] = find_curve(machine, demand.probe, ranks);
  if (curve == nullptr) return {};
  const double end =
      calibration.band.at(static_cast<std::size_t>(demand.input));
  const double factor = std::pow(1 + curve->spread, end) * ranks /
                        measured_ranks /
                        (ranks > 1 ? sharing(machine, measured_ranks)
                                   : calibration.measured_speed);
  return seconds_of(*curve, demand.sizes) * factor;
}

std::vector<std::string> unmeasured(std::span<const Recipe> recipes,
                                    const Calibration& calibration) {
  std::set<std::string> probes;
  if (!calibration.measured) return {};
  for (const Recipe& recipe : recipes)
    for (const Item& item : recipe.items)
      if (!measured_price(item.work, calibration))
        probes.insert(demand_of(item.work).probe);
  return {probes.begin(), probes.end()};
}

}  // namespace ztplan
