// How sure a prediction is: what a step would take were one input after the
// other at the ends of what its source supports, and what a meter may show.
// Inputs err apart from each other, so their swings add up as squares.
#pragma once

#include <array>
#include <optional>

#include "search/question.h"
#include "spec/inputs.h"

namespace ztplan {

/// ln(step / likely step) with one input at the ends of its band and the others
/// as they are: fast <= 0 <= slow.
struct Swing {
  double fast = 0, slow = 0;
};
using Swings = std::array<Swing, kInputs>;  // by Input

/// Constants move within their bands, rates of data sheets within what their
/// trust leaves. Requires `plan.time`.
Swings step_swings(const Question& question, const Plan& plan);

/// What a step takes beside what its inputs do: of a machine that was measured,
/// what its runs left, or those of the one in docs/calibration.md.
Swing rest_of(const Calibration& calibration);

/// Holds the step of four runs in five (docs/accuracy.md counts them).
struct StepInterval {
  Seconds low, high;
};
StepInterval step_interval(Seconds likely, const Swings& swings,
                           const Swing& rest);

/// Holds the peak that `meter` shows of four runs in five; empty: nobody says
/// which meter it was.
struct PeakInterval {
  Bytes low, high;
};
PeakInterval peak_interval(Bytes shown, std::optional<Meter> meter);

struct SwungStep {
  Seconds likely;
  Swings swings;
};

/// `other` over `step`, of layouts of one question. What moves both alike
/// cancels: the band is that of what they do not share, and of what the layouts
/// err by alone.
struct StepRatio {
  double likely = 1, low = 1, high = 1;
};
StepRatio step_ratio(const SwungStep& step, const SwungStep& other);

/// Whether either may be the faster.
bool is_alike(const StepRatio& ratio);

}  // namespace ztplan
