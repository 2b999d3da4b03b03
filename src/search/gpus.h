// The fewest GPUs that hold a model: counts of one device, tried upwards.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search/evaluate.h"
#include "search/request.h"

namespace ztplan {

/// One count of devices and the best that it can do.
struct GpuCount {
  int gpus = 0;
  std::optional<Plan> plan;  // of the least memory when nothing fits
  Fit fit = Fit::does_not_fit;
  Asked asked;
};

/// Of one kind of card.
struct GpuAnswer {
  std::string gpu;
  std::optional<GpuCount> fewest;       // fits, however tightly
  std::optional<GpuCount> comfortable;  // not tightly, in whole nodes
  std::optional<GpuCount> offloaded;    // fewest, with optimizer states away
  std::optional<GpuCount> below;        // the last that did not fit
  bool illegal = false;                 // on every count
  std::string problem;                  // why none was found
};

/// What is fixed of the strategy: keys of a strategy text, with data
/// parallelism left open; empty searches all.
GpuAnswer fewest_gpus(const Request& request, const std::string& strategy);

/// Devices a count may have: 1, 2, 4, ... of a node and then whole nodes, a
/// quarter more each time, up to `most`.
std::vector<int> counts_to_try(int per_node, int most);

}  // namespace ztplan
