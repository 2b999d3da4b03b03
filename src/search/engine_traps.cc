#include "search/engine_traps.h"

#include <algorithm>
#include <string_view>

#include "search/trap.h"

namespace ztplan {
namespace {

struct EngineTraps {
  std::string_view engine;
  std::span<const Trap> (*traps)();
};
constexpr EngineTraps kEngines[] = {{"deepspeed", deepspeed_traps},
                                    {"fsdp", fsdp_traps},
                                    {"megatron", megatron_traps},
                                    {"colossalai", colossalai_traps}};

bool any_layer(const ModelSpec& model, bool (*holds)(const Layer&)) {
  return std::ranges::any_of(model.layers, [&](const LayerGroup& group) {
    return holds(group.layer);
  });
}

}  // namespace

bool routes(const ModelSpec& model) {
  return any_layer(model, [](const Layer& l) { return l.ffn.is_moe(); });
}

bool has_dense_layers(const ModelSpec& model) {
  return any_layer(model, [](const Layer& l) { return !l.ffn.is_moe(); });
}

bool slides(const ModelSpec& model) {
  return any_layer(model,
                   [](const Layer& l) { return l.attention.window > 0; });
}

bool spans_nodes(const Question& q) {
  return q.cluster.devices > q.cluster.devices_per_node;
}

bool accumulates(const Question& q, const Strategy& s) {
  return s.pipeline == 1 && micro_batches(s, q.workload) > 1;
}

bool has_empty_stage(const Strategy& s) {
  return std::ranges::find(s.stage_layers, 0) != s.stage_layers.end();
}

std::vector<Finding> engine_traps(const Question& question, const Plan& plan) {
  std::vector<Finding> found;
  for (const EngineTraps& engine : kEngines) {
    if (engine.engine != plan.engine->name) continue;
    for (const Trap& trap : engine.traps())
      if (trap.meets(question, plan))
        found.push_back({trap.severity, trap.rule, "strategy", trap.detail,
                         trap.remedy, trap.source});
  }
  return found;
}

}  // namespace ztplan
