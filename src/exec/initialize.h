// First weights: an element's value depends on the seed, its parameter's name
// and its place there, never on how the model is cut.
#pragma once

#include "exec/stage_states.h"

namespace ztplan {

/// Writes masters of this rank's shards, the weights themselves in fp32.
/// Matrices are normal with
/// deviation 0.02, those that add to the stream by sqrt(2 layers) less (GPT-2);
/// padding of the vocabulary is 0.
void initialize_weights(const RankContext& context, StageStates& states,
                        std::uint64_t seed);

}  // namespace ztplan
