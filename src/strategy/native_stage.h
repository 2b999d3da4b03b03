// What ztplan's own executor allocates for one stage: built from the frames of
// its layers and read by the executor and the ledger alike.
#pragma once

#include <vector>

#include "strategy/layer_memory.h"
#include "strategy/native_frames.h"
#include "strategy/stages.h"

namespace ztplan {

/// The block of one micro-batch in one chunk: token ids where the chunk has the
/// embedding, then the frames of its layers. Layers that are recomputed whole,
/// the first ones, keep their input alone.
struct NativePass {
  struct LayerPlace {
    SavedFrame frame;
    Bytes offset;
    bool is_rebuilt = false;
  };
  bool has_tokens = false;
  std::vector<LayerPlace> layers;
  Bytes end;
  Bytes total() const { return end; }
};
NativePass native_pass(const ModelSpec& model, const Workload& workload,
                       const Strategy& strategy, int stage, int chunk);

/// The same as the ledger counts them.
LayerActivations native_activations(const ModelSpec& model, const Layer& layer,
                                    const Workload& workload,
                                    const Strategy& strategy);
EndActivations native_ends(const ModelSpec& model, const Workload& workload,
                           const Strategy& strategy, std::int64_t padded_vocab);

/// Room for whatever runs at one time: a layer forward or backward, rebuilt
/// first or not, or an end.
Bytes native_workspace(const ModelSpec& model, const Workload& workload,
                       const Strategy& strategy);
/// Where in it a rebuilt layer's output goes, which nobody reads.
Bytes native_nowhere(const ModelSpec& model, const Layer& layer,
                     const Workload& workload, const Strategy& strategy);

/// Positions, int32: of all tokens of a micro-batch here; with a ring, of one
/// sequence of every context rank; with Ulysses, of a whole sequence.
Bytes native_positions(const Workload& workload, const Strategy& strategy);

/// Offloaded states are stepped in slices, so that copies run beside Adam, as
/// DeepSpeed's sub-groups do (runtime/zero/stage3.py, sub_group_size).
constexpr int kOffloadSlices = 8;
/// Elements of one: whole blocks of a drive, 4 KiB of 16-bit numbers.
std::int64_t offload_slice(std::int64_t size);

/// The largest gradients of all ranks and their places, 8 bytes each, when a
/// stage's dense ones or its experts' are sent in one call.
Bytes native_topk(const Strategy& strategy, std::int64_t dense,
                  std::int64_t experts);

/// Sums of losses, of squares and of balance losses: three doubles, in a block
/// of 64 bytes.
constexpr Bytes kNativeTotals{64};

}  // namespace ztplan
