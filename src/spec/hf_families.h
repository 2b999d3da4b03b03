// The families of models behind Hugging Face configurations: one row each of
// key names, defaults and layout, and a function for what no column says.
// Source: huggingface/transformers, models/<model_type>/configuration_*.py for
// keys and defaults, modeling_*.py for the layout.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "spec/hf_keys.h"
#include "spec/model.h"

namespace ztplan {

/// Names of the keys every family has, "|" between spellings.
struct HfNames {
  std::string_view layers = "num_hidden_layers";
  std::string_view hidden = "hidden_size";
  std::string_view heads = "num_attention_heads";
  std::string_view kv_heads = "num_key_value_heads";
  std::string_view head_size = "head_dim";
  std::string_view ffn = "intermediate_size";
  std::string_view activation = "hidden_act";
  std::string_view positions = "max_position_embeddings";
};

/// Values of absent keys.
struct HfDefaults {
  int layers, hidden, heads;
  int kv_heads;   // 0: as many as heads
  int head_size;  // 0: hidden / heads
  int ffn;        // 0: 4 hidden
  int vocab, positions;
  bool tied;
};

/// A model on its way from keys to spec.
struct HfReading {
  const HfKeys& keys;
  ModelSpec model = {};  // without layers
  Layer layer = {};      // what all layers share, the dense MLP included
  int layers = 0;
  int positions = 0;
  std::optional<FeedForward> experts = {};  // of the layers that have them ...
  std::vector<bool> has_experts = {};       // [layers], or empty: none
  int window = 0;                           // of the layers that slide ...
  std::vector<bool> slides = {};            // [layers], or empty: none
};

/// What a family's layers look like, biases apart.
struct HfStyle {
  Norm norm = Norm::rms;
  int norms = 2;
  Positions positions = Positions::rotary;
  bool gated = true;
  std::string_view activation = "silu";
};

struct HfFamily {
  std::string_view model_type;
  HfDefaults defaults;
  void (*adapt)(HfReading&);
  HfNames names;
  HfStyle style;
  bool hidden_divides = false;  // hidden % heads must be 0 whatever head_dim is
  bool is_toy = false;          // the defaults are no published model
};

/// By model_type.
std::span<const HfFamily> hf_families();

/// Null when unknown. `model_type` may be that of a known wrapper, "gemma3".
const HfFamily* find_hf_family(std::string_view model_type);

}  // namespace ztplan
