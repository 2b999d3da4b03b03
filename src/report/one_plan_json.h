// The frame of an answer about one strategy: what was asked, and one plan.
#pragma once

#include <functional>
#include <string>

#include "base/json_writer.h"
#include "report/answer.h"

namespace ztplan {

/// {"schema", "model", ..., "verdict", "plans": [one], what `more` writes,
/// "timing"}.
std::string one_plan_json(const char* schema, const Asked& asked,
                          const Plan& plan, const Showing& showing,
                          const std::function<void(JsonWriter&)>& more);

/// "timing" of the open object, when it is asked.
void write_timing(JsonWriter& json, const Showing& showing);

}  // namespace ztplan
