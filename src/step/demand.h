// What a work asks of a machine, in the terms it is measured in: which probe is
// like it, and the sizes that probe's time grows with.
#pragma once

#include <string>
#include <vector>

#include "spec/calibration.h"
#include "step/work.h"

namespace ztplan {

struct Demand {
  std::string probe;          // "product/fp32", "all_reduce/4": of one node
  std::vector<double> sizes;  // the first is the number of starts
  Input input = Input::products;
};

/// Sizes by kind. Product: 1, multiply-adds, elements of A, of B and of C.
/// Attention: heads, their queries, scores, and the latter two times the sizes
/// of a head. Pass, collective, transfer: 1, bytes. Adam of the host: 1,
/// parameters.
Demand demand_of(const Work& work);

/// Ranks that take part.
int ranks_of(const Work& work);

/// "all_reduce/8" of ranks inside one node, "all_reduce/2x8" of `nodes` nodes
/// with as many ranks in each.
std::string collective_probe(CollectiveOp op, int nodes, int per_node);

}  // namespace ztplan
