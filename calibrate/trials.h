// How long something takes: warmed up, repeated, told by its median and by what
// four of five repeats lie between.
#pragma once

#include <functional>
#include <vector>

#include "base/units.h"

namespace ztplan {

struct Trials {
  Seconds low, median, high;
  int repeats = 0;
};

/// Seconds of the calling thread's clock.
double clock_seconds();

/// `call` as often as `budget` allows, ten times at least, after some that warm
/// up. Before each, what it works on is moved out of the core's own caches, as
/// it is in a step that has worked on other things since.
Trials time_trials(const std::function<void()>& call, Seconds budget);

/// Of `seconds`, at least one.
Trials summary_of(std::vector<double> seconds);

}  // namespace ztplan
