// A plan file (schema ztplan.plan/1, as `plan -o` writes it) read back: what
// was asked, and the strategy that was chosen. What it costs is computed anew.
#pragma once

#include <string>

#include "search/request.h"

namespace ztplan {

struct PlanFile {
  Request request;  // with the engine of the plan
  Strategy strategy;
};

/// Throws `Error` when the file is no plan, or lacks what a question needs.
PlanFile read_plan_file(const std::string& path);

}  // namespace ztplan
