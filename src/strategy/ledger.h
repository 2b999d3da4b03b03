// The ledger of one stage: what is held, on which tier, from which phase of a
// step to which. Search, `memory` and the simulated curve read the same one.
#pragma once

#include <array>
#include <boost/container/static_vector.hpp>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "spec/cluster.h"
#include "spec/model.h"
#include "strategy/engine.h"
#include "strategy/layer_memory.h"
#include "strategy/stages.h"
#include "strategy/strategy.h"

namespace ztplan {

enum class Term {
  parameters,
  gradients,
  optimizer,
  activations,
  logits,  // in the loss; part of `activations` where terms are fixed
  gathered,
  buffers,
  overhead
};
constexpr int kTerms = 8;
std::string_view to_text(Term term);

enum class Tier { device, host, nvme };

/// Of a step, in order. A holding lives from one phase through another.
enum class Phase { forward, backward, loss, reduce, step };
constexpr int kPhases = 5;
std::string_view to_text(Phase phase);

struct Holding {
  Term term;
  Tier tier;
  Bytes bytes;
  Phase from, until;
  const char* what;    // "fp32 master weights"
  const char* source;  // where the size is written down
};
using Ledger = boost::container::static_vector<Holding, 48>;

/// Sizes that depend on how a layer is cut but not on the stage: search shares
/// them between candidates.
struct StageSizes {
  std::vector<LayerActivations> activations;  // per layer kind
  std::vector<LayerShare> shares;             // per layer kind
  EndActivations ends;
  std::int64_t vocab = 0;  // padded
};
StageSizes stage_sizes(const Setting& setting, const Engine& engine,
                       const LayerKinds& kinds, const Strategy& strategy);

/// Parameters held by one device of a stage, before ZeRO.
struct StageShare {
  std::int64_t dense = 0;
  std::int64_t experts = 0;
  std::int64_t largest_layer = 0;  // dense + experts of its largest layer
  std::int64_t ends = 0;           // embedding and head, in `dense` too
};
StageShare stage_share(const ModelSpec& model, const StageSizes& sizes,
                       const StageShape& shape, const Strategy& strategy);

Ledger ledger(const Setting& setting, const Engine& engine,
              const StageSizes& sizes, const StageShape& shape,
              const Strategy& strategy, int stage);

struct MemoryBreakdown {
  std::array<Bytes, kTerms> terms{};  // at the peak, by Term
  Bytes host, nvme;                   // of this device
  Phase peak_phase = Phase::backward;
  int stage = 0;
  Bytes peak() const;
  Bytes operator[](Term term) const { return terms[static_cast<int>(term)]; }
};

/// The fullest phase of one stage.
MemoryBreakdown estimate_memory(const Ledger& holdings, int stage);

/// Of every stage; and the fullest one alone, looking only at stages that can
/// be it (the first, the second, the last and those with more layers).
std::vector<MemoryBreakdown> stage_memory(const Setting& setting,
                                          const Engine& engine,
                                          const Strategy& strategy);
MemoryBreakdown peak_memory(const Setting& setting, const Engine& engine,
                            const StageSizes& sizes,
                            const std::vector<StageShape>& shapes,
                            const Strategy& strategy);

/// Device memory a plan may use: what the framework reports, less what the
/// context and libraries take before the first tensor, less the margin.
Bytes usable_memory(const ClusterSpec& cluster, double margin);

}  // namespace ztplan
