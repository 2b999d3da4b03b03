// Weights, gradients and optimizer states of one stage on one rank, sharded by
// ZeRO (arXiv 1910.02054) as the strategy says, and what ranks do with them
// together: gather, reduce, norm, step.
#pragma once

#include "exec/native_ends.h"
#include "exec/units.h"

namespace ztplan {

/// What an optimizer step is told.
struct StepNumbers {
  float learning_rate = 0, beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F;
  float weight_decay = 0.1F;  // of matrices
  float factor = 1;           // of gradients: loss scale and clipping
  std::int64_t step = 1;
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
  /// one for the experts.
  void reduce_whole(Lane lane, std::span<const Unit> units) const;

  /// Adds to `*sum` the squares of the gradients this rank answers for.
  void square_sum(Lane lane, bool first_stage, double* sum) const;
  void step(Lane lane, const StepNumbers& numbers) const;
  /// Gathers what every rank stepped of its shards (ZeRO 1 and 2).
  void gather_updates(Lane lane) const;

  /// This rank's shard of a flat buffer, in fp32 where it has masters.
  struct Shard {
    Array weights, masters, first_moment, second_moment, gradients;
    int rank = 0;  // of those that share it
  };
  Shard shard_of(const FlatState& flat) const;
  /// Masters, rounded to weights: after masters were written.
  void round_masters(Lane lane) const;
  bool has_masters() const { return !masters_.empty(); }
  const StageUnits& units() const { return units_; }
  const Holders& holders(const FlatState& flat) const {
    return flat.flat.experts ? experts_ : dense_;
  }

 private:
  bool shards_weights() const { return context_.strategy.zero == 3; }
  bool shards_gradients() const { return context_.strategy.zero >= 2; }
  Array weights_of(const Unit& unit, const FlatState& flat, int slot) const;
  Array gradients_of(const Unit& unit, const FlatState& flat, int slot) const;
  Array own(const Array& whole, const FlatState& flat) const;
  EndArrays ends_of(const Unit& unit, int slot, bool gradients) const;
  template <class Visit>
  void for_each_flat(const Visit& visit) const;

  RankContext& context_;
  const StageUnits& units_;
  const Holders& dense_;
  const Holders& experts_;
  Array weights_;    // whole, or shards under ZeRO 3
  Array gradients_;  // whole, or shards under ZeRO 2 and 3
  Array masters_, first_moments_, second_moments_;  // shards, fp32
  std::array<Array, kUnitSlots> gathered_, unit_gradients_;
};

}  // namespace ztplan
