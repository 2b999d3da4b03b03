// Errors of predicted runs: by source and over all, or run by run.
#pragma once

#include <string>

#include "report/answer.h"
#include "search/validation.h"

namespace ztplan {

/// What is shown beside the errors.
struct ValidationParts {
  bool one_factor = false, attribution = false;
};

/// JSON: schema ztplan.validate/1. CSV: a row a run. Table: a row a source,
/// why runs were skipped, and with verbose the runs that are furthest off.
std::string render_validation(const Validation& validation,
                              const ValidationParts& parts,
                              const Showing& showing);

}  // namespace ztplan
