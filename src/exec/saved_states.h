// A rank's weights and Adam moments as a checkpoint holds them: each element of
// the model once, whatever layout saved it, and back into any layout.
#pragma once

#include <vector>

#include "exec/checkpoint.h"
#include "exec/rank_engine.h"

namespace ztplan {

/// What this rank answers for, under "NAME", "NAME.first_moment" and
/// "NAME.second_moment", in fp32.
struct StatesToSave {
  std::vector<TensorToSave> tensors;
  std::vector<std::vector<float>> values;  // what tensors are views of
};
StatesToSave states_to_save(RankEngine& rank);

/// Fills this rank's part from the checkpoint. Under ZeRO 1 and 2 collective.
/// Throws `Error` when a tensor is missing or has another shape.
void load_states(RankEngine& rank, Checkpoint& checkpoint);

}  // namespace ztplan
