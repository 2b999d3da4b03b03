// The machine of a measured row: its GPU as tables name it, and what they say
// of its links.
#pragma once

#include <string>

#include "base/csv.h"
#include "spec/catalog.h"

namespace ztplan {

/// Most devices that a row may name.
constexpr int kMostRunDevices = 1'000'000;

/// The machine of `devices` of the row's `gpu`, in its usual nodes but for
/// `overrides`. Throws `Skip` for one that is not named or not known.
ClusterSpec machine_of_run(const CsvRow& row, ClusterOverrides overrides,
                           int devices);

}  // namespace ztplan
