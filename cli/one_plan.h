// What the commands that judge one strategy share: the question, the strategy
// and its plan, or why it is illegal.
#pragma once

#include "cli/command.h"
#include "search/request.h"

namespace ztplan {

struct Judged {
  Asked asked;  // with no margin
  Plan plan;
};

/// Throws `Illegal` when no engine of the question allows the strategy.
Judged judge(Flags flags);
Judged judge(Asked asked, const Strategy& strategy);

/// 0 when it fits, 3 when it does not, and with --strict 5 below the margin.
Exit exit_of(const Judged& judged, const Flags& flags);

}  // namespace ztplan
