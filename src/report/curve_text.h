// Memory over the time of a step, drawn in characters.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "time/memory_curve.h"

namespace ztplan {

/// Bars of '#', one a moment, as high as the most that is held in it; the
/// axis at the left in GiB, the step's length below. Requires points in order
/// of time.
std::string draw_curve(const std::vector<CurvePoint>& points, Seconds end);

}  // namespace ztplan
