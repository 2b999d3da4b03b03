// What measured runs share: the question that layouts answer, and the inputs of
// the model that its errors may go with.
#pragma once

#include <string>
#include <vector>

#include "interop/training_runs.h"

namespace ztplan {

/// "llama3-8b on 64 x h100-sxm-80gb, 8192 tokens x 128, bf16, megatron-core":
/// equal for runs that differ in their layout alone.
std::string question_text(const TrainingRun& run);

/// framework, gpu, precision, tensor, pipeline, micro_batch, model (its size),
/// experts, zero and recompute of a run.
std::vector<RunInput> inputs_of_run(const TrainingRun& run);

}  // namespace ztplan
