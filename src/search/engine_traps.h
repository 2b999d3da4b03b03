// Known traps of engines that a strategy can walk into: hangs, silent
// downgrades, options that are accepted and do something else.
#pragma once

#include <vector>

#include "search/finding.h"
#include "search/question.h"

namespace ztplan {

/// Those of the plan's engine that the plan meets, each with the thread that
/// reports it.
std::vector<Finding> engine_traps(const Question& question, const Plan& plan);

}  // namespace ztplan
