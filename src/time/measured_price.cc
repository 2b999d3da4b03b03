#include "time/measured_price.h"

#include <charconv>
#include <cmath>
#include <set>

#include "spec/measured.h"
#include "step/demand.h"
#include "time/span.h"

namespace ztplan {
namespace {

/// How a group lies on nodes.
struct Shape {
  int nodes = 1, per_node = 1;
  int ranks() const { return nodes * per_node; }
};

Shape shape_of(const Work& work, const Machine& machine) {
  const auto* collective = std::get_if<Collective>(&work);
  if (collective == nullptr) return {};
  const Span span = span_of(collective->group, machine);
  if (collective->op == CollectiveOp::send_receive)
    return span.nodes > 1 ? Shape{2, 1} : Shape{1, 2};
  return span.nodes > 1 ? Shape{span.nodes, span.per_node}
                        : Shape{1, collective->group.size};
}

/// Of what follows the last slash: "4" or "2x8".
Shape shape_in(const std::string& probe) {
  const char* const end = probe.data() + probe.size();
  int first = 1, second = 1;
  const auto [stop, problem] =
      std::from_chars(probe.data() + probe.rfind('/') + 1, end, first);
  if (problem != std::errc{} || stop == end) return {1, first};
  std::from_chars(stop + 1, end, second);
  return {first, second};
}

struct Found {
  const ProbeCurve* curve = nullptr;
  Shape shape;
};

double distance(int count, int other) {
  return std::abs(std::log(static_cast<double>(count) / other));
}

Found nearest_group(const MeasuredMachine& machine, CollectiveOp op,
                    const Shape& shape) {
  const std::string probe = collective_probe(op, shape.nodes, shape.per_node);
  const std::string of_op = probe.substr(0, probe.rfind('/') + 1);
  Found found;
  for (auto at = machine.curves.lower_bound(of_op);
       at != machine.curves.end() && at->first.starts_with(of_op); ++at) {
    const Shape here = shape_in(at->first);
    const bool alike = shape.nodes > 1
                           ? here.nodes > 1 && here.per_node == shape.per_node
                           : here.nodes == 1;
    if (!alike) continue;
    if (found.curve == nullptr ||
        distance(shape.ranks(), here.ranks()) <
            distance(shape.ranks(), found.shape.ranks()))
      found = {&at->second, here};
  }
  return found;
}

/// Each rank's part of one memory is another pass over it; on links of their
/// own rings send (n - 1) / n of the buffer whatever n.
double grown(const MeasuredMachine& machine, const Shape& shape,
             const Shape& measured) {
  const double ranks = shape.ranks(), others = measured.ranks();
  if (!machine.sharing.empty()) return ranks / others;
  return (1 - 1 / ranks) / (1 - 1 / others);
}

}  // namespace

std::optional<Seconds> measured_price(const Work& work,
                                      const Machine& machine) {
  const Calibration& calibration = machine.calibration;
  if (!calibration.measured) return {};
  const MeasuredMachine& measured = *calibration.measured;
  const Demand demand = demand_of(work);
  Found found;
  double factor = 1;
  if (const auto* collective = std::get_if<Collective>(&work)) {
    const Shape shape = shape_of(work, machine);
    found = nearest_group(measured, collective->op, shape);
    if (found.curve == nullptr) return {};
    factor = grown(measured, shape, found.shape) /
             sharing(measured, found.shape.ranks());
  } else {
    const auto at = measured.curves.find(demand.probe);
    if (at == measured.curves.end()) return {};
    found.curve = &at->second;
    factor = 1 / calibration.measured_speed;
  }
  const double end =
      calibration.band.at(static_cast<std::size_t>(demand.input));
  return seconds_of(*found.curve, demand.sizes) *
         (factor * std::pow(1 + found.curve->spread, end));
}

std::vector<std::string> unmeasured(std::span<const Recipe> recipes,
                                    const Machine& machine) {
  std::set<std::string> probes;
  if (!machine.calibration.measured) return {};
  for (const Recipe& recipe : recipes)
    for (const Item& item : recipe.items)
      if (!measured_price(item.work, machine))
        probes.insert(demand_of(item.work).probe);
  return {probes.begin(), probes.end()};
}

}  // namespace ztplan
