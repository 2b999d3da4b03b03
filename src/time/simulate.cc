#include "time/simulate.h"

#include <algorithm>

namespace ztplan {
namespace {

Seconds price(const Item& item, const Machine& machine) {
  return price(item.work, machine) * static_cast<double>(item.count);
}

}  // namespace

RecipePrice price_items(const Recipe& recipe, const Machine& machine) {
  const bool one_by_one = shares_cores(machine.calibration);
  RecipePrice result;
  std::vector<Seconds> seconds;
  seconds.reserve(recipe.items.size());
  for (std::size_t i = 0; i < recipe.items.size(); ++i) {
    const Item& item = recipe.items[i];
    seconds.push_back(price(item, machine));
    Seconds exposed = seconds.back();
    if (item.beside > 0 && !one_by_one)
      exposed = std::max(
          Seconds{},
          exposed - seconds[i - static_cast<std::size_t>(item.beside)]);
    result.terms[static_cast<std::size_t>(item.term)] += exposed;
    result.total += exposed;
  }
  return result;
}

/// What the host needs to launch it all.
Seconds launch_time(const Recipe& recipe, const Calibration& calibration) {
  std::int64_t collectives = 0;
  for (const Item& item : recipe.items)
    if (std::holds_alternative<Collective>(item.work))
      collectives += item.count;
  return {calibration.kernel_start.value * static_cast<double>(recipe.kernels) +
          calibration.collective_start.value *
              static_cast<double>(collectives)};
}

RecipePrice price(const Recipe& recipe, const Machine& machine) {
  RecipePrice result = price_items(recipe, machine);
  Seconds& compute = result.terms[static_cast<std::size_t>(TimeTerm::compute)];
  if (recipe.beside_gathers) {
    const Seconds slowed =
        compute * (machine.calibration.gather_interference.value - 1);
    compute += slowed;
    result.total += slowed;
  }
  const Seconds launches = launch_time(recipe, machine.calibration);
  const Seconds idle = std::max(Seconds{}, launches - result.total);
  compute += idle;
  result.total += idle;
  return result;
}

PriceList price_all(const StepGraph& graph, const Machine& machine) {
  PriceList prices;
  prices.reserve(graph.recipes().size());
  for (const Recipe& recipe : graph.recipes())
    prices.push_back(price(recipe, machine));
  return prices;
}

Timeline simulate(const StepGraph& graph, const PriceList& prices) {
  Timeline timeline;
  timeline.spans.resize(graph.tasks().size());
  for (const TaskId id : graph.order()) {
    Span& span = timeline.spans[static_cast<std::size_t>(id)];
    for (const TaskId before : graph.predecessors(id))
      span.start = std::max(
          span.start, timeline.spans[static_cast<std::size_t>(before)].end);
    const int recipe = graph.tasks()[static_cast<std::size_t>(id)].recipe;
    span.end = span.start + prices[static_cast<std::size_t>(recipe)].total;
  }
  return timeline;
}

}  // namespace ztplan
