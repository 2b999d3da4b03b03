// Plans side by side: the table on the first screen of `plan`, and its CSV.
#pragma once

#include <vector>

#include "base/table.h"
#include "search/question.h"

namespace ztplan {

/// One row a plan, of at most 80 columns. What all plans share (beyond tp, pp,
/// dp and zero) is left out, as the best strategy is printed in full above; and
/// what differs least tellingly, where the screen is too narrow.
Table plan_table(const std::vector<Plan>& plans);

/// One row a plan with everything, numbers exact.
Table plan_csv(const Question& question, const std::vector<Plan>& plans);

}  // namespace ztplan
