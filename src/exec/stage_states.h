// Weights, gradients and optimizer states of one stage on one rank, sharded by
// ZeRO (arXiv 1910.02054) as the strategy says, and what ranks do with them
// together: gather, reduce, norm, step. Offloaded states (arXiv 2101.06840,
// 2104.07857) live on the host or a drive, and the processor steps them.
#pragma once

#include "exec/largest_gradients.h"
#include "exec/native_ends.h"
#include "exec/optimizer_states.h"
#include "exec/units.h"

namespace ztplan {

/// What an optimizer step is told.
struct StepNumbers {
  float learning_rate = 0, beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F;
  float weight_decay = 0.1F;  // of matrices
  float factor = 1;           // of gradients: loss scale and clipping
  std::int64_t step = 1;
};

/// AdamW as the step is told, with decay or without, and no arrays yet.
kernels::AdamW adam_of(const StepNumbers& numbers, bool decays);

/// What Adam steps of one flat buffer.
struct AdamArrays {
  Array masters, first_moment, second_moment;
};

/// Which of the buffers a unit is gathered into, or has whole gradients in.
constexpr int kUnitSlots = 2;

class StageStates {
 public:
  /// Allocates all of them on the device; units, context and holders outlive
  /// this.
  StageStates(RankContext& context, const StageUnits& units,
              const Holders& dense, const Holders& experts);

  UnitArrays layer_weights(const Unit& unit, int slot) const;
  UnitArrays layer_gradients(const Unit& unit, int slot) const;
  EndArrays end_weights(const Unit& unit, int slot) const;
  EndArrays end_gradients(const Unit& unit, int slot) const;

  /// Gathers a unit's shards into `slot` (ZeRO 3).
  void gather(Lane lane, const Unit& unit, int slot) const;
  /// Zeroes what a step adds gradients to.
  void zero_gradients(Lane lane) const;
  /// Zeroes the whole gradients of a unit in `slot` (ZeRO 2 and 3).
  void open_gradients(Lane lane, const Unit& unit, int slot) const;
  /// Sums over tensor ranks the gradients of what they hold equally, each of a
  /// part of the sequence. On the compute lane.
  void sum_over_tensor(const Unit& unit, int slot) const;
  /// Reduces a unit's gradients over those that hold it: into this rank's
  /// shard; `last` of the step also over replicas.
  void reduce(Lane lane, const Unit& unit, int slot, bool last) const;
  /// The same without ZeRO, for all of `units` in one call for the dense and
  /// one for the experts; or of their largest alone, where the strategy
  /// compresses them.
  void reduce_whole(Lane lane, std::span<const Unit> units) const;

  /// Adds to `*sum` the squares of the gradients this rank answers for.
  void square_sum(Lane lane, bool first_stage, double* sum) const;
  void step(Lane lane, const StepNumbers& numbers) const;
  /// Gathers what every rank stepped of its shards (ZeRO 1 and 2).
  void gather_updates(Lane lane) const;

  /// Slice by slice, where the optimizer is on the host: gradients there,
  /// states from a drive and back, the step, weights back to the device.
  void fetch_gradients(Lane lane, int slice) const;
  void load_slice(Lane lane, int slice);
  void step_slice(Lane lane, int slice, const StepNumbers& numbers) const;
  void store_slice(Lane lane, int slice);
  void return_weights(Lane lane, int slice) const;
  /// Weights of a unit that live elsewhere, to where `gather` takes them: from
  /// the drive, then from the host.
  void load_weights(Lane lane, const Unit& unit, int slot);
  void fetch_weights(Lane lane, const Unit& unit, int slot) const;

  /// This rank's shard of a flat buffer on the device; no weights where they
  /// are offloaded.
  struct Shard {
    Array weights, gradients;
    int rank = 0;  // of those that share it
  };
  Shard shard_of(const FlatState& flat) const;
  /// Its masters or moments, wherever they are. Collective with nobody.
  std::vector<float> read_states(const FlatState& flat, StateKind kind);
  void write_states(const FlatState& flat, StateKind kind,
                    std::span<const float> values);
  /// Weights from masters that were written: on this rank.
  void settle_weights();
  const StageUnits& units() const { return units_; }
  const Holders& holders(const FlatState& flat) const {
    return flat.flat.experts ? experts_ : dense_;
  }

 private:
  bool shards_weights() const { return context_.strategy.zero == 3; }
  const Offload& offload() const { return context_.strategy.offload; }
  bool weights_leave() const {
    return offload().parameters != OffloadTier::none;
  }
  bool optimizer_leaves() const {
    return offload().optimizer != OffloadTier::none;
  }
  bool shards_gradients() const { return context_.strategy.zero >= 2; }
  Array weights_of(const FlatState& flat, int slot) const;
  Array gradients_of(const FlatState& flat, int slot) const;
  Array own(const Array& whole, const FlatState& flat) const;
  EndArrays ends_of(const Unit& unit, int slot, bool gradients) const;
  template <class Visit>
  void for_each_flat(const Visit& visit) const;
  template <class Visit>
  void for_each_in_slice(int slice, const Visit& visit) const;
  void lay_host();
  std::int64_t largest_shard() const;
  void fetch_flat(Lane lane, const FlatState& flat, int slot) const;
  Array host_weights(int slice) const;
  Array staged(const FlatState& flat, int slot) const;
  AdamArrays adam_arrays(const FlatState& flat) const;

  RankContext& context_;
  const StageUnits& units_;
  const Holders& dense_;
  const Holders& experts_;
  Array weights_;    // whole, or shards under ZeRO 3
  Array gradients_;  // whole, or shards under ZeRO 2 and 3
  LargestGradients largest_;
  OptimizerStates optimizer_;
  std::array<Array, kUnitSlots> gathered_, unit_gradients_;
  // Where the optimizer is on the host: gradients of all shards; weights of
  // them, or of two slices on their way to a drive, which then come back by
  // flat buffers.
  Array host_gradients_, host_weights_;
  std::array<Array, kUnitSlots> staged_weights_;
  std::optional<DriveFile> weights_drive_;
};

}  // namespace ztplan
