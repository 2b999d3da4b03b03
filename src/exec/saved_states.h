// A rank's weights and Adam moments as a checkpoint holds them: each element of
// the model once, whatever layout saved it, and back into any layout.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exec/checkpoint.h"
#include "exec/huggingface_weights.h"
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

/// Weights of a Hugging Face checkpoint in place of the first ones. Throws
/// `Error` when one is missing, has another shape, or would be left over.
void load_weights(RankEngine& rank, const HuggingFaceWeights& weights);
/// The family whose names the model's parameters have there.
WeightNames weight_names_of(const ModelSpec& model);

/// A parameter of the model, fp32.
struct WholeWeight {
  ParameterShape shape;
  std::vector<float> values;
};
using WholeWeights = std::map<std::string, WholeWeight>;
/// What this rank answers for of the model's weights, as bytes for rank 0.
std::string weights_text(RankEngine& rank);
/// Adds them; the texts of all ranks hold each element once.
void add_weights(std::string_view text, WholeWeights& weights);
/// Writes them under Hugging Face's names, whole or not at all.
void save_weights(const ModelSpec& model, const WholeWeights& weights,
                  const std::string& path);

}  // namespace ztplan
