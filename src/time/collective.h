// The collective NCCL would run: algorithm and protocol by its own cost model,
// then the time of that choice with measured corrections.
// Source: NCCL 2.28.9 src/graph/tuning.cc; corrections fitted on published
// one-node measurements (see docs/decisions).
#pragma once

#include <string_view>

#include "base/units.h"
#include "spec/calibration.h"
#include "spec/cluster.h"
#include "step/work.h"
#include "time/price.h"

namespace ztplan {

enum class Algorithm { ring, tree, nvls, nvls_tree, pairwise };
enum class Protocol { ll, ll128, simple };

struct CollectiveChoice {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  Seconds time;
};

/// Requires collective.group.size >= 1; a group of one costs nothing.
CollectiveChoice choose(const Collective& collective, const Machine& machine);

std::string_view to_text(Algorithm algorithm);
std::string_view to_text(Protocol protocol);

}  // namespace ztplan
