// One fact of a machine changed by what was typed: its links, its host, its
// device. How the texts read is told at ClusterOverrides.
#pragma once

#include "spec/blueprint.h"
#include "spec/catalog.h"

namespace ztplan {

/// Applies all of `overrides` but `nodes`, which is a count; `gpus_per_node` is
/// the one that holds. Throws `Error` that says what was expected.
void apply_overrides(Blueprint& blueprint, const ClusterOverrides& overrides);

}  // namespace ztplan
