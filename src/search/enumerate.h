// Every strategy worth asking about, legal or not, in a fixed order.
#pragma once

#include <functional>

#include "search/question.h"

namespace ztplan {

/// Calls `visit` with every combination of the question's limits whose sizes
/// multiply to the cluster's devices.
void enumerate(const Question& question,
               const std::function<void(const Strategy&)>& visit);

}  // namespace ztplan
