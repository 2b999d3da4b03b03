// What of a calibration errs together, apart from the rest, at the ends of its
// bands.
#pragma once

#include "spec/calibration.h"

namespace ztplan {

/// `calibration` with the constants of `input` at the end of their bands that
/// saves time (`high` shares, `low` times), or at the one that costs it.
enum class End { fast, slow };
Calibration moved(Calibration calibration, Input input, End end);

}  // namespace ztplan
