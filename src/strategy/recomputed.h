// What is recomputed: the parts of a layer that selective recomputation names,
// and how many layers of a chunk are recomputed whole.
#pragma once

#include <string_view>

#include "strategy/stages.h"
#include "strategy/strategy.h"

namespace ztplan {

/// A part of a layer, by its word here and by Megatron-LM's in
/// --recompute-modules. Source: NVIDIA/Megatron-LM
/// megatron/core/transformer/transformer_config.py, recompute_modules.
struct RecomputedPart {
  std::string_view text, megatron;
  bool Recompute::*flag;
  bool is_module = false;  // run again whole, products and collectives too
};

/// In the order that they are written in. `op` is none: it stands alone.
constexpr RecomputedPart kRecomputedParts[] = {
    {"attention", "core_attn", &Recompute::attention},
    {"norms", "layernorm", &Recompute::norms},
    {"activation", "moe_act", &Recompute::activation},
    {"mla_up_proj", "mla_up_proj", &Recompute::mla_up_proj, true},
    {"mlp", "mlp", &Recompute::mlp, true},
    {"moe", "moe", &Recompute::moe, true},
    {"shared_experts", "shared_experts", &Recompute::shared_experts, true},
};

/// Whether any of them is named, and whether any module is.
bool names_parts(const Recompute& recompute);
bool names_modules(const Recompute& recompute);

/// Layers of `chunk` that are recomputed whole: none, `recompute.layers` of
/// each chunk (Megatron-LM's --recompute-method block), or all.
int recomputed_layers(const Strategy& strategy, const ChunkShape& chunk);

/// Whether whole layers are.
inline bool recomputes_layers(const Strategy& strategy) {
  return strategy.recompute.mode == Recompute::Mode::full;
}

}  // namespace ztplan
