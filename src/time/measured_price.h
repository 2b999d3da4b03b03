// Work -> seconds by curves measured on the machine itself.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "step/recipe.h"
#include "time/price.h"

namespace ztplan {

/// Nothing where the calibration has no curve of such a work. Of ranks that
/// share cores, the time one alone would take. A group of another size is taken
/// as the nearest one measured: inside a node by its ranks, across nodes with
/// as many ranks in each by its nodes.
std::optional<Seconds> measured_price(const Work& work, const Machine& machine);

/// Probes that the works of `recipes` ask for and the calibration has no curve
/// of, in order; none without a measured machine.
std::vector<std::string> unmeasured(std::span<const Recipe> recipes,
                                    const Machine& machine);

}  // namespace ztplan
