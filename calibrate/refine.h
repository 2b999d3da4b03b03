// What whole steps take over what probes foretell: launches, waits and memory
// that no probe stands for. Learnt from runs that were predicted with the
// calibration; samples, fits and the data sheet stay.
#pragma once

#include <span>

#include "spec/measured.h"

namespace ztplan {

struct ExecutedRun {
  int ranks = 1;
  Seconds predicted, measured;  // of a step
};

/// Each count of ranks that ran gets the median of its runs; between and beyond
/// counts the nearest below. `run_spread` is of all runs around that. Requires
/// runs.
MeasuredMachine refine(MeasuredMachine machine,
                       std::span<const ExecutedRun> runs);

}  // namespace ztplan
