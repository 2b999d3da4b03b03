// `run`: steps as they are done, then what was predicted beside what was
// measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/answer.h"

namespace ztplan {

/// One step, as a line.
struct RunStep {
  std::int64_t step = 0, steps = 0;  // this one, from 1 on, and of all
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  std::optional<double> balance;  // of experts, where there are: 1 is even
  Seconds seconds, predicted;
  double tokens_per_second = 0, mfu = 0;
  bool skipped = false;  // gradients overflowed: nothing was stepped
};

/// What a step costs: bytes at the peak of the rank that uses most, seconds by
/// term, bytes sent by term.
struct RunCosts {
  MemoryBreakdown memory;
  std::array<Seconds, kTimeTerms> terms{};
  Seconds step;
  Traffic traffic;
};

struct RunAnswer {
  const Asked& asked;
  const Plan& plan;
  std::string device;  // "cpu"
  std::int64_t steps = 0, resumed_from = 0;
  bool interrupted = false;
  RunCosts predicted, measured;
};

/// The plan, its memory and its traffic, before the first step; nothing as
/// JSON.
std::string render_run_start(const Asked& asked, const Plan& plan,
                             const Showing& showing);
std::string render_run_step(const RunStep& step, const Showing& showing);
std::string render_run_end(const RunAnswer& answer, const Showing& showing);

}  // namespace ztplan
