// Graph x prices -> timeline: one pass in topological order.
#pragma once

#include <array>
#include <vector>

#include "step/step_graph.h"
#include "step/timeline.h"
#include "time/price.h"

namespace ztplan {

/// Seconds of one recipe, and how they divide.
struct RecipePrice {
  std::array<Seconds, kTimeTerms> terms{};
  Seconds total;
};

/// Of its items alone, and of the recipe: it cannot be faster than the host
/// launches its kernels.
RecipePrice price_items(const Recipe& recipe, const Machine& machine);
RecipePrice price(const Recipe& recipe, const Machine& machine);

using PriceList = std::vector<RecipePrice>;  // indexed as StepGraph::recipes()
PriceList price_all(const StepGraph& graph, const Machine& machine);

/// A task starts when all it waits for have ended.
Timeline simulate(const StepGraph& graph, const PriceList& prices);

}  // namespace ztplan
