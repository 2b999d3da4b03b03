// The answer of `gpus`: the fewest of each card, with days and cost.
#pragma once

#include <string>
#include <vector>

#include "report/answer.h"
#include "search/gpus.h"

namespace ztplan {

/// `tokens` 0: no budget was given. `price`: USD of one GPU for an hour; 0: as
/// hardware/ has it, if it does.
struct GpusAnswer {
  std::vector<GpuAnswer> cards;
  double tokens = 0;
  double price = 0;
};
std::string render_gpus(const GpusAnswer& answer, const Showing& showing);

}  // namespace ztplan
