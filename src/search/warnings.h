// What a user of a plan should know: assumptions that flatter it, and costs
// that surprise people.
#pragma once

#include <vector>

#include "search/finding.h"
#include "search/question.h"

namespace ztplan {

/// Of a plan that was evaluated for `question`.
std::vector<Finding> warnings(const Question& question, const Plan& plan);

}  // namespace ztplan
