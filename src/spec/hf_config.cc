#include "spec/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "spec/hf_families.h"
#include "spec/hf_keys.h"

namespace ztplan {
namespace {

constexpr int kLongestSequence = 8192;  // see the header
constexpr int kMostLayers = 10'000;     // as validate

struct ActivationName {
  std::string_view name;
  Activation value;
};

constexpr ActivationName kActivations[] = {
    {"gelu", Activation::gelu},
    {"gelu_new", Activation::gelu},
    {"gelu_fast", Activation::gelu},
    {"gelu_python", Activation::gelu},
    {"gelu_pytorch_tanh", Activation::gelu},
    {"relu", Activation::relu},
    {"relu2", Activation::relu},  // squared
    {"silu", Activation::silu},
    {"swish", Activation::silu},
};

[[noreturn]] void refuse_type(const JsonView& file, const std::string& type) {
  const std::vector<std::string> known = hf_model_types();
  std::string list;
  for (const std::string& name : known)
    list += (list.empty() ? "" : ", ") + name;
  const std::string near = nearest_name(type, known);
  const std::string meant =
      near.empty() ? "" : fmt::format("did you mean {}? ", near);
  file.fail(type.empty()
                ? "key \"model_type\" is missing"
                : fmt::format("model_type {} is not known", quote(type)),
            meant + "known: " + list);
}

/// T5 writes "gated-gelu" for a gated MLP.
void read_activation(FeedForward& f, const HfKeys& keys,
                     const HfFamily& family) {
  constexpr std::string_view kGated = "gated-";
  std::string word =
      keys.word(family.names.activation, family.style.activation);
  f.gated = family.style.gated || word.starts_with(kGated);
  if (word.starts_with(kGated)) word = word.substr(kGated.size());
  std::string known;
  for (const ActivationName& a : kActivations) {
    if (a.name == word) {
      f.activation = a.value;
      return;
    }
    known += (known.empty() ? "" : ", ") + std::string(a.name);
  }
  keys.fail(family.names.activation,
            fmt::format("activation {} is not known", quote(word)),
            "known: " + known);
}

int read_head_size(const HfKeys& keys, const HfFamily& family, int hidden,
                   int heads) {
  const int size =
      keys.size_or_null(family.names.head_size, family.defaults.head_size, 0);
  const bool divides = heads > 0 && hidden % heads == 0;
  if (!divides && (size == 0 || family.hidden_divides))
    keys.fail(family.names.heads,
              fmt::format("{} heads must divide {} {}", heads,
                          first_spelling(family.names.hidden), hidden),
              family.hidden_divides ? "transformers refuses this too" : "");
  return size > 0 ? size : hidden / heads;
}

Attention read_attention(const HfKeys& keys, const HfFamily& family,
                         int hidden) {
  const HfDefaults& absent = family.defaults;
  Attention a;
  a.heads = keys.size(family.names.heads, absent.heads);
  a.kv_heads = keys.size_or_null(family.names.kv_heads, absent.kv_heads, 0);
  if (a.kv_heads == 0) a.kv_heads = a.heads;
  a.head_size = read_head_size(keys, family, hidden, a.heads);
  return a;
}

FeedForward read_ffn(const HfKeys& keys, const HfFamily& family, int hidden) {
  FeedForward f;
  // Only where the default is 4 hidden may the key be null.
  f.width = family.defaults.ffn > 0
                ? keys.size(family.names.ffn, family.defaults.ffn)
                : keys.size_or_null(family.names.ffn, 0, 0);
  if (f.width == 0 && family.defaults.ffn == 0) f.width = 4 * hidden;
  read_activation(f, keys, family);
  return f;
}

HfReading read_common(const HfKeys& keys, const HfFamily& family) {
  const HfNames& names = family.names;
  const HfDefaults& absent = family.defaults;
  HfReading r{.keys = keys};
  r.layers = keys.size(names.layers, absent.layers);
  r.positions =
      keys.size_or_null(names.positions, absent.positions, absent.positions);
  r.model.hidden = keys.size(names.hidden, absent.hidden);
  r.model.vocab = keys.size("vocab_size", absent.vocab);
  r.model.tied = keys.flag("tie_word_embeddings", absent.tied);
  r.model.norm = family.style.norm;
  r.model.positions = family.style.positions;
  r.model.rotary_base =
      keys.number("rope_theta|rotary_emb_base", r.model.rotary_base);
  r.model.norm_epsilon = keys.number(
      "rms_norm_eps|layer_norm_epsilon|layer_norm_eps", r.model.norm_epsilon);
  r.layer.norms = family.style.norms;
  r.layer.attention = read_attention(keys, family, r.model.hidden);
  r.layer.ffn = read_ffn(keys, family, r.model.hidden);
  return r;
}

/// `layer_types`, where the file has it, overrides the family's own rule.
void read_layer_types(HfReading& r) {
  const std::vector<std::string> types = r.keys.words("layer_types");
  if (types.empty()) return;
  if (static_cast<int>(types.size()) != r.layers)
    r.keys.fail("layer_types",
                fmt::format("expected {} entries, one a layer, "
                            "found {}",
                            r.layers, types.size()),
                "");
  r.slides.assign(types.size(), false);
  for (std::size_t i = 0; i < types.size(); ++i) {
    r.slides[i] =
        types[i] == "sliding_attention" || types[i] == "chunked_attention";
    if (!r.slides[i] && types[i] != "full_attention")
      r.keys.fail("layer_types", quote(types[i]) + " is not known",
                  "full_attention, sliding_attention or chunked_attention");
  }
}

void append_layer(HfReading& r, std::size_t index) {
  Layer layer = r.layer;
  if (!r.slides.empty() && r.slides[index]) layer.attention.window = r.window;
  if (!r.has_experts.empty() && r.has_experts[index]) layer.ffn = *r.experts;
  append_layers(r.model, 1, layer);
}

void refuse_toy(const HfKeys& keys, const HfFamily& family) {
  const HfNames& names = family.names;
  if (!family.is_toy || keys.has(names.layers) || keys.has(names.hidden))
    return;
  keys.fail("model_type",
            fmt::format("the file gives no layers and no hidden size, and the "
                        "defaults of {} are no real model",
                        family.model_type),
            fmt::format("give {} and {}", first_spelling(names.layers),
                        first_spelling(names.hidden)));
}

std::string tell_source(const HfKeys& keys, const HfFamily& family,
                        const HfReading& r) {
  std::string source =
      fmt::format("Hugging Face configuration of {}", family.model_type);
  if (keys.is_nested()) source += ", the text decoder alone";
  if (r.positions > kLongestSequence)
    source += fmt::format(", sequence {} of at most {}", kLongestSequence,
                          r.positions);
  return source;
}

void check_layers(const HfReading& r, const HfFamily& family) {
  if (1 <= r.layers && r.layers <= kMostLayers) return;
  r.keys.fail(
      family.names.layers,
      fmt::format("expected 1 to {} layers, found {}", kMostLayers, r.layers),
      "");
}

ModelSpec read_family(const HfKeys& keys, const HfFamily& family,
                      const std::string& name) {
  refuse_toy(keys, family);
  HfReading r = read_common(keys, family);
  check_layers(r, family);
  r.model.name = name;
  r.model.sequence = std::min(r.positions, kLongestSequence);
  family.adapt(r);
  read_layer_types(r);
  if (r.model.layers.empty())
    for (std::size_t i = 0; i < static_cast<std::size_t>(r.layers); ++i)
      append_layer(r, i);
  r.model.source = tell_source(keys, family, r);
  return std::move(r.model);
}

}  // namespace

bool is_hf_config(const JsonView& file) {
  return file.has("model_type") || file.has("architectures") ||
         file.has("text_config");
}

ModelSpec read_hf_config(const JsonView& file, const std::string& name) {
  const HfKeys keys(file);
  const HfFamily* family = find_hf_family(keys.model_type());
  if (family == nullptr) refuse_type(file, keys.model_type());
  const std::string own = file.string_or("_name_or_path", "");
  ModelSpec model = read_family(keys, *family, own.empty() ? name : own);
  try {
    validate(model);
  } catch (const Error& error) {
    file.fail(error.what(), error.hint());
  }
  return model;
}

ModelSpec parse_hf_config(std::string_view text, const std::string& origin) {
  return read_hf_config(JsonView::parse(text, origin), origin);
}

std::vector<std::string> hf_model_types() {
  std::vector<std::string> types;
  for (const HfFamily& family : hf_families())
    types.emplace_back(family.model_type);
  return types;
}

}  // namespace ztplan
