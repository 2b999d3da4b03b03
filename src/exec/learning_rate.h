// The learning rate of a step: a straight climb, then half a cosine down to a
// floor.
#pragma once

#include <cstdint>

namespace ztplan {

/// As in Loshchilov and Hutter, SGDR (arXiv:1608.03983), equation 5, without
/// restarts; the climb as in Radford et al. 2018 (GPT) and nanoGPT's get_lr.
struct LearningRate {
  double peak = 0;
  double floor = 0;        // reached at `steps` and kept
  std::int64_t climb = 0;  // steps of warm-up
  std::int64_t steps = 0;  // of the whole run, the climb among them
};

/// The rate of `step`, counted from 0: peak * (step + 1) / (climb + 1) while
/// step < climb, so that no step is idle; peak at step = climb; floor from
/// step = steps on. Requires climb >= 0, and steps >= climb.
double rate_at(const LearningRate& schedule, std::int64_t step);

}  // namespace ztplan
