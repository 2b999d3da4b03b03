// Every strategy worth asking about, legal or not, in a fixed order.
#pragma once

#include <functional>

#include "search/question.h"

namespace ztplan {

/// Calls `visit` with every combination of the question's limits whose sizes
/// multiply to the cluster's devices. What varies fastest: offload, shard
/// group, ZeRO stage, then recomputation, micro-batch, schedule.
///
/// Where the question sets no limit: tensor up to the model's heads; stages up
/// to its layers; context as long as a rank keeps 1024 tokens; micro-batches
/// of powers of two up to 16384 tokens; up to 12 chunks that divide a stage's
/// layers; ZeRO over all ranks, stages 1 and 3 also inside one node; five
/// offloads; five recomputations.
void enumerate(const Question& question,
               const std::function<void(const Strategy&)>& visit);

}  // namespace ztplan
