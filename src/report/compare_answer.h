// The answer of `compare`: two plans, each with what was asked.
#pragma once

#include <string>

#include "report/answer.h"

namespace ztplan {

struct Compared {
  std::string name;
  Asked asked;
  Plan plan;
};

std::string render_compare(const Compared& a, const Compared& b,
                           const Showing& showing);

}  // namespace ztplan
