// The answers of the commands that judge a strategy: what was asked and what
// was found. Each is rendered in one of the formats; JSON keys are the
// contract's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/stage_activity.h"
#include "report/style.h"
#include "search/explain.h"
#include "search/request.h"
#include "time/memory_curve.h"

namespace ztplan {

/// How an answer is shown, and how long it took when that is asked.
struct Showing {
  Format format = Format::table;
  Style style;
  std::optional<double> seconds;
};

/// A strategy and why it is not the first.
struct WhyNot {
  Strategy strategy;
  Explanation explanation;
};
/// "slower", "illegal", ... and the numbers, in one sentence.
std::string_view verdict_word(const WhyNot& asked);
std::string why_not_sentence(const WhyNot& asked);

/// `plan`. `below_margin`: nothing keeps the margin free, these fit without.
struct PlanAnswer {
  const Asked& asked;
  const Ranking& ranking;
  bool below_margin = false;
  std::vector<Misfit> misfits;       // of one strategy, when none is legal
  std::vector<WhyNot> why_not = {};  // strategies the user asked about
};
std::string render_plans(const PlanAnswer& answer, const Showing& showing);
/// The best plan alone: schema ztplan.plan/1, as a file holds it.
std::string plan_file(const PlanAnswer& answer);

/// Memory of one stage over a step.
struct StageCurve {
  int stage = 0;
  std::vector<CurvePoint> points;
};

/// `memory`. `curves` is empty unless the course over time is asked.
struct MemoryAnswer {
  const Asked& asked;
  const Plan& plan;
  std::vector<StageCurve> curves;
};
std::string render_memory(const MemoryAnswer& answer, const Showing& showing);

/// `simulate`. `stages` is empty when the step has too many passes for it.
struct SimulateAnswer {
  const Asked& asked;
  const Plan& plan;
  std::vector<StageActivity> stages;
};
std::string render_simulation(const SimulateAnswer& answer,
                              const Showing& showing);

/// `explain`.
struct ExplainAnswer {
  const Asked& asked;
  const Strategy& strategy;
  const Explanation& explanation;
};
std::string render_explanation(const ExplainAnswer& answer,
                               const Showing& showing);

}  // namespace ztplan
