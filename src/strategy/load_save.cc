#include <algorithm>

#include "strategy/stage_holdings.h"

namespace ztplan {
namespace {

/// Weights a device keeps between steps.
std::int64_t kept_weights(const Setting& setting, const Engine& engine,
                          const StageShare& share, const Strategy& strategy) {
  if (!shards_weights(setting.workload, engine, strategy)) return share.total();
  const LayerShare shard = shard_of(share.all, strategy);
  return shard.dense + shard.experts;
}

Bytes outside_tensors(const Setting& setting, const Engine& engine,
                      const Strategy& strategy) {
  return context_bytes(setting.workload.framework) +
         communicator_bytes(setting.cluster, strategy, *engine.memory);
}

}  // namespace

EdgePeak load_peak(const Setting& setting, const Engine& engine,
                   const StageShare& share, const Strategy& strategy) {
  const Workload& workload = setting.workload;
  const StateBytes bytes = state_bytes(workload, *engine.memory, strategy);
  const std::int64_t kept = kept_weights(setting, engine, share, strategy);
  const bool replicated = workload.loading == Loading::replicated;
  // What is read whole stays as it is where nothing is cut.
  const bool is_cut = kept < share.total();
  const std::int64_t read = replicated && is_cut
                                ? share.total()
                                : std::min(share.largest_layer, kept);
  const std::int64_t whole =
      replicated ? parameters(setting.model) : share.largest_layer;
  return {outside_tensors(setting, engine, strategy) +
              Bytes{bytes.parameter * (kept + read)},
          node_bytes(Bytes{activation_bytes(workload.precision) * whole},
                     setting.cluster)};
}

EdgePeak save_peak(const Setting& setting, const Engine& engine,
                   const StageShare& share, const Strategy& strategy) {
  const StateBytes bytes =
      state_bytes(setting.workload, *engine.memory, strategy);
  const LayerShare shard = shard_of(share.all, strategy);
  const bool optimizer_here = strategy.offload.optimizer == OffloadTier::none;
  const std::int64_t states =
      optimizer_here
          ? bytes.optimizer * (shard.trained_dense + shard.trained_experts)
          : 0;
  const std::int64_t number = activation_bytes(setting.workload.precision);
  const std::int64_t gathered =
      std::max(share.largest_layer, share.largest_end);
  return {outside_tensors(setting, engine, strategy) +
              Bytes{states + number * gathered +
                    bytes.parameter *
                        kept_weights(setting, engine, share, strategy)},
          Bytes{number * parameters(setting.model)}};
}

}  // namespace ztplan
