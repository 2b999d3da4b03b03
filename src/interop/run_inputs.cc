#include "interop/run_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "strategy/engines/rules.h"

namespace ztplan {
namespace {

struct SizeBucket {
  double below;  // parameters
  std::string_view name;
};
constexpr std::array kSizes = {
    SizeBucket{1e9, "below 1B"},
    SizeBucket{5e9, "1B to 5B"},
    SizeBucket{15e9, "5B to 15B"},
    SizeBucket{50e9, "15B to 50B"},
    SizeBucket{150e9, "50B to 150B"},
    SizeBucket{std::numeric_limits<double>::max(), "150B and more"}};

RunInput model_size(const ModelSpec& model) {
  const auto count = static_cast<double>(parameters(model));
  const auto* size = std::ranges::find_if(
      kSizes, [&](const SizeBucket& bucket) { return count < bucket.below; });
  return {"model", std::string(size->name), size->below};
}

RunInput number(const char* name, int value) {
  return {name, fmt::format("{}", value), static_cast<double>(value)};
}

}  // namespace

std::string question_text(const TrainingRun& run) {
  const Question& q = run.question;
  return fmt::format("{} on {} x {}, {} tokens x {}, {} {}", q.model.name,
                     q.cluster.devices, q.cluster.device.id,
                     q.workload.sequence, q.workload.global_batch,
                     q.workload.framework.id, run.variant);
}

std::vector<RunInput> inputs_of_run(const TrainingRun& run) {
  const Question& q = run.question;
  const Strategy& s = run.strategy;
  return {{"framework", q.workload.framework.id},
          {"gpu", q.cluster.device.id},
          {"precision", std::string(to_text(q.workload.precision))},
          number("tensor", s.tensor),
          number("pipeline", s.pipeline),
          number("micro_batch", s.micro_batch),
          model_size(q.model),
          {"experts", has_experts(q.model) ? "some" : "none"},
          number("zero", s.zero),
          {"recompute", to_text(s.recompute)}};
}

}  // namespace ztplan
