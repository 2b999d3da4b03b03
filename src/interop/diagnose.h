// From a log and, where they are known, a model and a strategy to a diagnosis.
#pragma once

#include "interop/failure_log.h"
#include "search/diagnosis.h"
#include "search/request.h"

namespace ztplan {

/// What the log says by itself, and general advice.
Diagnosis diagnose(const FailureLog& log);

/// Adds what `plan` explains: the tensor, the term, remedies with their cost.
void explain_with(const FailureLog& log, const Question& question,
                  const Plan& plan, Diagnosis& diagnosis);

}  // namespace ztplan
