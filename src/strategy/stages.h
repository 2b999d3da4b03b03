// Which layers each pipeline stage and virtual chunk holds.
#pragma once

#include <vector>

#include "spec/model.h"
#include "strategy/strategy.h"

namespace ztplan {

/// Whether a stage holds the two chunks that lie alike from the ends of the
/// model, so that they form a V: stage s chunks s and 2 pipeline - 1 - s. Else
/// chunk c runs on stage c % pipeline. Source: arXiv 2401.10241, section 6.
bool folds(const Strategy& strategy);

/// Whether embedding and head lie on different stages.
bool ends_apart(const Strategy& strategy);

/// The place in the model of the `chunk`-th chunk of a stage, and the stage of
/// the chunk at that place.
int virtual_stage(const Strategy& strategy, int stage, int chunk);
int stage_of(const Strategy& strategy, int virtual_stage);

/// Layers that run without leaving a device: a virtual stage.
struct ChunkShape {
  std::vector<int> layers_of_kind;  // counts, indexed as LayerKinds::kinds
  bool has_embedding = false;
  bool has_head = false;
  auto operator<=>(const ChunkShape&) const = default;
  int layers() const;
};

/// What one stage holds: `virtual_stages` chunks.
struct StageShape {
  std::vector<ChunkShape> chunks;
  auto operator<=>(const StageShape&) const = default;
  int layers() const;
  bool has_embedding() const;
  bool has_head() const;
};

/// Layers of each of pipeline * virtual_stages chunks in execution order. Even;
/// or with embedding and loss counted as one layer each (`ends_as_layers`,
/// Megatron-LM's account_for_embedding_in_pipeline_split and
/// account_for_loss_...; it allows either alone too, ztplan takes both or
/// none); or as `stage_layers` says: one number a chunk in this order, or one a
/// stage, divided evenly over its chunks. Empty when the layers do not divide
/// so.
std::vector<int> chunk_layers(int layers, const Strategy& strategy);

/// The first layer of `virtual_stage`, whose count is among `layers`, as
/// `chunk_layers` has them.
int first_layer(const std::vector<int>& layers, int virtual_stage);

/// Whether `chunk_layers` is not empty. Allocates nothing.
bool layers_divide(int layers, const Strategy& strategy);

/// Layers of the fullest chunk. Requires `layers_divide`. Allocates nothing.
int most_chunk_layers(int layers, const Strategy& strategy);

/// One shape per stage. Requires that `chunk_layers` is not empty.
std::vector<StageShape> stage_shapes(const LayerKinds& kinds,
                                     const Strategy& strategy);

/// Chunks whose activations stage `stage` holds at its worst moment, in units
/// of one chunk of one micro-batch, of a schedule with whole backwards. GPipe:
/// m * v. 1F1B: min(m, p - stage). Interleaved:
/// min(2(p - stage - 1) + (v - 1) p + 1, m v).
/// Source: Megatron-LM schedules.py, get_pp_rank_microbatches.
int chunks_in_flight(const Strategy& strategy, int stage, int micro_batches);

}  // namespace ztplan
