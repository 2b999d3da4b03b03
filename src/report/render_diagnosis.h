// The answer of `diagnose`.
#pragma once

#include <string>

#include "report/answer.h"
#include "search/diagnosis.h"

namespace ztplan {

/// `asked` is null when no model was given.
std::string render_diagnosis(const Diagnosis& diagnosis, const Asked* asked,
                             const Showing& showing);

}  // namespace ztplan
