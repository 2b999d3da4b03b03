// Gradients summed over ranks by their largest: each rank sends those, keeps
// the rest and adds it to the next step's (top-k compression with error
// feedback, Lin et al., arXiv 1712.01887; momentum correction is not done).
#pragma once

#include "exec/peers.h"
#include "exec/units.h"

namespace ztplan {

class LargestGradients {
 public:
  /// Of a stage's whole fp32 gradients; holds nothing where the strategy does
  /// not compress. Both outlive this.
  LargestGradients(const RankContext& context, const StageUnits& units);

  /// Makes of `gradient`, elements `from` and on of the stage's, the sum of
  /// what its peers sent, in the order of ranks.
  void sum(Lane lane, const Peers& peers, std::int64_t from,
           const Array& gradient) const;

 private:
  const RankContext& context_;
  Array feedback_;  // what was not sent yet
  Array room_;      // values of a rank, then their places, rank by rank
};

}  // namespace ztplan
