// What is measured: works at sizes from a layer of a tiny model to one that a
// processor still computes in a fraction of a second.
#pragma once

#include <vector>

#include "step/work.h"

namespace ztplan {

enum class Thoroughness { quick, whole };

/// Products, attention and passes of one rank, then transfers and the host's
/// Adam, then collectives of up to `ranks`.
std::vector<Work> probes(Thoroughness how, int ranks);

}  // namespace ztplan
