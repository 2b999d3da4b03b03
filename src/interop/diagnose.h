// From a log and, where they are known, a model and a strategy to a diagnosis.
#pragma once

#include "interop/failure_log.h"
#include "search/diagnosis.h"
#include "search/request.h"

namespace ztplan {

/// What the log says by itself, and general advice.
Diagnosis diagnose(const FailureLog& log);

/// Adds what `strategy` explains: the tensor, the term, remedies with their
/// cost. Requires that it is legal for `engine`.
void explain_with(const FailureLog& log, const Question& question,
                  const Engine& engine, const Strategy& strategy,
                  Diagnosis& diagnosis);

}  // namespace ztplan
