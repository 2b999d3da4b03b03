// The part of an answer that repeats what was asked, as JSON: model, cluster,
// workload and the defaults that were taken. Keys are fixed by the contract.
#pragma once

#include "base/json_writer.h"
#include "search/request.h"

namespace ztplan {

/// Writes the members "model", "cluster", "workload" and "defaults" of the
/// object that is open.
void write_question(JsonWriter& json, const Asked& asked);

}  // namespace ztplan
