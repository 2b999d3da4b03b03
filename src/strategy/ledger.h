// The ledger of one stage: what is held, on which tier, from which phase of a
// step to which. Search, `memory` and the simulated curve read the same one.
//
// What is counted where, once: tensors in their own term; what the caching
// allocator holds beyond them, the CUDA context and the communicators in
// `overhead`. So `peak()` is what the driver shows, and a device may fill up to
// the memory the framework reports, less the margin (`usable_memory`).
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
#include "strategy/parameter_tensors.h"
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

/// Of a step, in order: forward with all its micro-batches in flight, the loss
/// of one of them (last stage), backward at its start, when all they saved is
/// still there, the reduction after the last backward, the optimizer step. A
/// holding lives from one phase through another.
enum class Phase { forward, loss, backward, reduce, step };
constexpr int kPhases = 5;
std::string_view to_text(Phase phase);

/// Which meter shows a holding of the device: torch.cuda.max_memory_allocated,
/// max_memory_reserved as well, or nvidia-smi alone. On the host: tensors, or
/// what their blocks take beyond them.
enum class Meter { allocated, reserved, driver };

struct Holding {
  Term term;
  Tier tier;
  Bytes bytes;
  Phase from, until;
  const char* what;    // "fp32 master weights"
  const char* source;  // where the size is written down
  Meter meter = Meter::allocated;
};
using Ledger = boost::container::static_vector<Holding, 56>;

/// Sizes that depend on how a layer is cut but not on the stage: search shares
/// them between candidates.
struct StageSizes {
  std::vector<LayerActivations> activations;  // per layer kind
  std::vector<LayerShare> shares;             // per layer kind
  EndActivations ends;
  EndShare end_share;
  /// Parameters one by one, where an engine pins them so: per layer kind, of
  /// the embedding, of the final norm; else empty.
  std::vector<TensorList> tensors;
  TensorList embedding_tensors, norm_tensors;
  Bytes boundary;          // a stage's input
  Bytes workspace;         // where an executor runs whatever runs: no layer has
                           // `working` bytes then
  std::int64_t vocab = 0;  // padded
};
StageSizes stage_sizes(const Setting& setting, const Engine& engine,
                       const LayerKinds& kinds, const Strategy& strategy);

/// Parameters held by one device of a stage, before ZeRO.
struct StageShare {
  LayerShare all;
  std::int64_t largest_layer = 0;     // dense + experts of its largest layer
  std::int64_t largest_trained = 0;   // of that, trained
  std::int64_t largest_gathered = 0;  // of its layers, less what persists
  std::int64_t ends = 0;              // embedding and head, in `all.dense` too
  std::int64_t largest_end = 0;  // embedding (an output matrix is as large)
                                 // less what persists
  std::int64_t total() const { return all.dense + all.experts; }
  std::int64_t trained() const {
    return all.trained_dense + all.trained_experts;
  }
};
StageShare stage_share(const Setting& setting, const StageSizes& sizes,
                       const StageShape& shape);

/// `parameters` cut over `parts`, each flat buffer padded as Megatron-LM pads
/// it: to a multiple of lcm(parts, 128) elements. Equal to `parameters` for one
/// part. Source: core/distributed/param_and_grad_buffer.py.
std::int64_t padded_shard(std::int64_t parameters, std::int64_t parts);

/// Ranks that share the ZeRO states of experts: `expert_data`, or the same part
/// of it that `shard_group` is of data * context.
std::int64_t expert_zero_group(const Strategy& strategy);

/// Whether ZeRO 3 cuts the weights: DeepSpeed leaves quantized ones whole.
bool shards_weights(const Workload& workload, const Engine& engine,
                    const Strategy& strategy);

/// Whether ranks of a pipeline hold weights and gradients of their whole stage
/// from its first micro-batch, which alone gathers, to its last, which alone
/// reduces: `EngineMemory::keeps_stage_gathered`.
bool keeps_stage_whole(const Engine& engine, const Strategy& strategy);

/// Bytes of `count` frozen weights of linear layers as they are stored.
Bytes quantized_bytes(Quantize quantize, std::int64_t count);

/// Whether gradients are reduced beside backward, and elements they are
/// reduced by: what the strategy says, or the engine's own.
bool overlaps_reduction(const Engine& engine, const Strategy& strategy);

/// Bytes of `count` gradients as they travel, uncompressed.
Bytes travelling_bytes(const Workload& workload, const Strategy& strategy,
                       std::int64_t count);

/// What ZeRO, its shard group and offload do not change of a stage: search
/// makes it once for all of them.
struct StageBase {
  int stage = 0;
  StageShare share;
  Ledger passes;  // activations, loss and what crosses stages
};
StageBase stage_base(const Setting& setting, const Engine& engine,
                     const StageSizes& sizes, const StageShape& shape,
                     const Strategy& strategy, int stage);

/// Everything one device of a stage holds. No allocation; under a microsecond.
/// `base` may come from a strategy with other ZeRO, shard group or offload.
Ledger ledger(const Setting& setting, const Engine& engine,
              const StageSizes& sizes, const StageShape& shape,
              const Strategy& strategy, const StageBase& base);
Ledger ledger(const Setting& setting, const Engine& engine,
              const StageSizes& sizes, const StageShape& shape,
              const Strategy& strategy, int stage);

/// What one micro-batch leaves in a chunk from its forward to its backward,
/// what that backward needs beside it, and what a split one leaves for the
/// gradients of weights: the parts of the activation holdings.
struct ChunkBytes {
  Bytes saved, working, pending;
};
ChunkBytes chunk_bytes(const StageSizes& sizes, const ChunkShape& chunk,
                       const Strategy& strategy);

struct MemoryBreakdown {
  std::array<Bytes, kTerms> terms{};  // at the peak, by Term
  Bytes host, nvme;                   // of this device, tensors
  Bytes host_rounding;  // what pinned blocks on the host take beyond them
  Phase peak_phase = Phase::backward;
  int stage = 0;
  Bytes allocated;  // of `terms`, tensors
  Bytes slack;      // of Term::overhead, what the allocator holds beyond them
  Bytes peak() const;
  Bytes operator[](Term term) const {
    return terms[static_cast<std::size_t>(term)];
  }
};

/// The most bytes of one device on each tier, whatever the phase.
struct Fullness {
  Bytes device, host, nvme;
};
Fullness fullness(const Ledger& holdings);
Fullness fullness(const MemoryBreakdown& memory);

/// The fullest phase of one stage.
MemoryBreakdown estimate_memory(const Ledger& holdings, int stage);

/// Bytes on `tier` in each phase: the curve of a step, in five points.
std::array<Bytes, kPhases> phase_bytes(const Ledger& holdings, Tier tier);

/// Of every stage.
std::vector<MemoryBreakdown> stage_memory(const Setting& setting,
                                          const Engine& engine,
                                          const Strategy& strategy);

/// The stages that can be the fullest: of a run of equal shapes the first,
/// which has most in flight; all, where later stages defer more weights.
std::vector<int> fullest_candidates(const std::vector<StageShape>& shapes,
                                    const Strategy& strategy);

/// Whether a stage with `more` holds at least what one with `less` does, under
/// any ZeRO, shard group and offload. `boundary` is a stage's input: two of
/// them are received from each neighbour.
bool outweighs(const StageBase& more, const StageBase& less, Bytes boundary);

/// Tensors on the host of one device, and what their blocks are rounded up by.
Bytes host_taken(const MemoryBreakdown& memory);

/// What torch reports as reserved, and what nvidia-smi shows.
Bytes reserved(const MemoryBreakdown& memory);
Bytes driver_shown(const MemoryBreakdown& memory);

/// Bytes of one node whose devices all hold `bytes` of its host or NVMe.
Bytes node_bytes(Bytes bytes, const ClusterSpec& cluster);

/// Bytes at the worst moment outside of the steps: of one device, and of the
/// host memory of one node.
struct EdgePeak {
  Bytes device, host;
};

/// Before the first step: weights arrive. Replicated, every rank builds the
/// whole model in host memory first (DeepSpeed without zero.Init, FSDP without
/// meta tensors).
EdgePeak load_peak(const Setting& setting, const Engine& engine,
                   const StageShare& share, const Strategy& strategy);

/// A checkpoint of whole 16-bit weights: they are gathered a layer at a time
/// and collected by one rank. Source: DeepSpeed, runtime/engine.py,
/// _zero3_consolidated_16bit_state_dict; torch, FULL_STATE_DICT.
EdgePeak save_peak(const Setting& setting, const Engine& engine,
                   const StageShare& share, const Strategy& strategy);

/// The largest activation of one micro-batch, by name: "attention scores",
/// "logits" (fp32), "layer input" or "MLP input".
struct LargestTensor {
  const char* name;
  Bytes bytes;
};
LargestTensor largest_tensor(const StageSizes& sizes);

/// Device memory a plan may use: what the framework reports less `margin`, a
/// share of it. Context and libraries are holdings of the plan.
Bytes usable_memory(const ClusterSpec& cluster, double margin);

}  // namespace ztplan
