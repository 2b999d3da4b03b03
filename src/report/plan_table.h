// Plans side by side: the table on the first screen of `plan`, and its CSV.
#pragma once

#include <vector>

#include "base/table.h"
#include "search/question.h"

namespace ztplan {

/// One row a plan. Sizes that all plans share (beyond tp, pp, dp and zero) are
/// left out: the best strategy is printed in full above.
Table plan_table(const std::vector<Plan>& plans);

/// One row a plan with everything, numbers exact.
Table plan_csv(const Question& question, const std::vector<Plan>& plans);

}  // namespace ztplan
