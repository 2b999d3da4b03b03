// The names of parameters: ztplan's and those of Hugging Face's checkpoints.
// Copying from one to the other is huggingface_weights.h's.
//
// Ours, N a layer and E an expert, from 0; weights are [outputs, inputs]:
//   embedding.weight  positions.weight  final_norm.weight|bias  head.weight
//   layers.N.norm1.weight|bias          layers.N.norm2.weight|bias
//   layers.N.attention.q|k|v|o.weight|bias
//   layers.N.mlp.gate|up|down.weight|bias
//   layers.N.router.weight              layers.N.experts.E.gate|up|down.weight
//   layers.N.shared.gate|up|down.weight
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ztplan {

/// Families whose checkpoints name parameters alike. Source:
/// huggingface/transformers, modeling_*.py of gpt2 and llama; mixtral and
/// qwen2_moe as conversion_mapping.py says they are in files.
enum class WeightNames { gpt2, llama, mixtral, qwen2_moe };

/// Of "model_type" in a config.json: gpt2; llama, mistral and qwen2; mixtral;
/// qwen2_moe. None for others: their layers have parameters of other names.
std::optional<WeightNames> weight_names(std::string_view model_type);

/// Where a parameter of ours is: the `piece`th of `pieces` equal ranges of the
/// outputs of theirs, which may be stored as [inputs, outputs].
struct TheirPart {
  std::string name;
  int piece = 0, pieces = 1;
  bool transposed = false;

  bool operator==(const TheirPart&) const = default;
};

/// Throws `Error` for a parameter that the family has not.
TheirPart their_part(WeightNames names, std::string_view ours);

}  // namespace ztplan
