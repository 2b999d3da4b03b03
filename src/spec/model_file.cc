#include "spec/model_file.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"
#include "base/quote.h"

namespace ztplan {
namespace {

constexpr std::size_t kMostGroups = 10'000;  // as many as validate has layers

template <class Enum, std::size_t n>
using Names = std::array<std::pair<std::string_view, Enum>, n>;

constexpr Names<Norm, 2> kNorms{{{"layer", Norm::layer}, {"rms", Norm::rms}}};
constexpr Names<Positions, 5> kPositions{{{"none", Positions::none},
                                          {"learned", Positions::learned},
                                          {"rotary", Positions::rotary},
                                          {"alibi", Positions::alibi},
                                          {"relative", Positions::relative}}};
constexpr Names<Activation, 3> kActivations{{{"gelu", Activation::gelu},
                                             {"relu", Activation::relu},
                                             {"silu", Activation::silu}}};
constexpr Names<QkNorm, 3> kQkNorms{
    {{"none", QkNorm::none}, {"head", QkNorm::head}, {"full", QkNorm::full}}};

template <class Enum, std::size_t n>
Enum read_word(const JsonView& view, const Names<Enum, n>& names) {
  const std::string word = view.string();
  std::string allowed;
  for (const auto& [name, value] : names) {
    if (name == word) return value;
    allowed += (allowed.empty() ? "" : ", ") + std::string(name);
  }
  view.fail("expected one of " + allowed + ", found " + quote(word));
}

/// Bounds are validate's; here only what fits.
int read_size(const JsonView& view) {
  return view.small_integer(0, std::numeric_limits<int>::max());
}

int size_or(const JsonView& view, std::string_view key, int fallback) {
  return view.has(key) ? read_size(view.at(key)) : fallback;
}

std::optional<std::int64_t> read_count(const JsonView& view,
                                       std::string_view key) {
  if (!view.has(key)) return std::nullopt;
  const JsonView at = view.at(key);
  const std::int64_t count = at.integer();
  if (count < 1) at.fail("expected a count of at least 1");
  return count;
}

Latent read_latent(const JsonView& view) {
  view.allow_only(
      {"q_rank", "kv_rank", "nope_size", "rope_size", "value_size"});
  return {.q_rank = size_or(view, "q_rank", 0),
          .kv_rank = read_size(view.at("kv_rank")),
          .nope_size = read_size(view.at("nope_size")),
          .rope_size = read_size(view.at("rope_size")),
          .value_size = read_size(view.at("value_size"))};
}

/// A latent head's size follows from its parts.
int read_head_size(const JsonView& view, const Latent& latent) {
  if (!view.has("latent")) return read_size(view.at("head_size"));
  if (view.has("head_size"))
    view.at("head_size").fail("nope_size + rope_size say this already");
  const auto size =
      static_cast<std::int64_t>(latent.nope_size) + latent.rope_size;
  if (size > std::numeric_limits<int>::max())
    view.at("latent").fail("nope_size + rope_size are too large");
  return static_cast<int>(size);
}

Attention read_attention(const JsonView& view) {
  view.allow_only({"heads", "kv_heads", "head_size", "qkv_bias", "output_bias",
                   "qk_norm", "sinks", "causal", "cross", "window",
                   "full_every", "latent"});
  Attention a;
  if (view.has("latent")) a.latent = read_latent(view.at("latent"));
  a.heads = read_size(view.at("heads"));
  a.kv_heads = size_or(view, "kv_heads", a.heads);
  a.head_size = read_head_size(view, a.latent);
  a.qkv_bias = view.boolean_or("qkv_bias", false);
  a.output_bias = view.boolean_or("output_bias", false);
  if (view.has("qk_norm")) a.qk_norm = read_word(view.at("qk_norm"), kQkNorms);
  a.sinks = view.boolean_or("sinks", false);
  a.causal = view.boolean_or("causal", true);
  a.cross = view.boolean_or("cross", false);
  a.window = size_or(view, "window", 0);
  return a;
}

FeedForward read_ffn(const JsonView& view) {
  view.allow_only({"width", "gated", "bias", "clamped", "activation", "experts",
                   "top_k", "expert_width", "shared_width", "shared_bias",
                   "shared_gate", "router_bias"});
  FeedForward f;
  f.width = size_or(view, "width", 0);
  f.gated = view.boolean_or("gated", false);
  f.bias = view.boolean_or("bias", false);
  f.clamped = view.boolean_or("clamped", false);
  f.activation = read_word(view.at("activation"), kActivations);
  f.experts = size_or(view, "experts", 0);
  f.top_k = size_or(view, "top_k", 0);
  f.expert_width = size_or(view, "expert_width", 0);
  f.shared_width = size_or(view, "shared_width", 0);
  f.shared_bias = view.boolean_or("shared_bias", false);
  f.shared_gate = view.boolean_or("shared_gate", false);
  f.router_bias = view.boolean_or("router_bias", false);
  return f;
}

/// Each `full_every`-th of `count` layers sees all tokens.
void append_windowed(ModelSpec& model, int count, Layer layer, int full_every) {
  Layer full = layer;
  full.attention.window = 0;
  for (; count >= full_every; count -= full_every) {
    append_layers(model, full_every - 1, layer);
    append_layers(model, 1, full);
  }
  append_layers(model, count, layer);
}

void append_group(ModelSpec& model, const JsonView& view) {
  view.allow_only({"count", "norms", "attention", "ffn"});
  const JsonView attention = view.at("attention");
  const JsonView count = view.at("count");
  const int layers = count.small_integer(1, kMostGroups);
  const Layer layer = {.attention = read_attention(attention),
                       .ffn = read_ffn(view.at("ffn")),
                       .norms = size_or(view, "norms", 2)};
  if (!attention.has("full_every")) return append_layers(model, layers, layer);
  if (layer.attention.window == 0)
    attention.at("full_every").fail("needs a window");
  append_windowed(model, layers, layer,
                  attention.at("full_every").small_integer(1, kMostGroups));
}

void append_pattern(ModelSpec& model, const JsonView& view) {
  view.allow_only({"repeat", "pattern"});
  const JsonView pattern = view.at("pattern");
  ModelSpec once;
  for (std::size_t i = 0; i < pattern.size(); ++i)
    append_group(once, pattern[i]);
  const int times = view.at("repeat").small_integer(1, kMostGroups);
  if (static_cast<std::size_t>(times) * once.layers.size() > kMostGroups)
    view.fail("repeats to more than 10000 groups");
  for (int n = 0; n < times; ++n)
    for (const LayerGroup& group : once.layers)
      append_layers(model, group.count, group.layer);
}

void read_layers(ModelSpec& model, const JsonView& view) {
  for (std::size_t i = 0; i < view.size(); ++i) {
    const JsonView entry = view[i];
    if (entry.has("pattern"))
      append_pattern(model, entry);
    else
      append_group(model, entry);
    if (model.layers.size() > kMostGroups)
      view.fail("more than 10000 groups of layers");
  }
}

std::vector<std::string> read_aliases(const JsonView& file) {
  std::vector<std::string> aliases;
  if (!file.has("aliases")) return aliases;
  const JsonView list = file.at("aliases");
  for (std::size_t i = 0; i < list.size(); ++i)
    aliases.push_back(list[i].string());
  return aliases;
}

double number_or(const JsonView& file, std::string_view key, double fallback) {
  return file.has(key) ? file.at(key).number() : fallback;
}

void read_ends(ModelSpec& model, const JsonView& file) {
  model.norm = read_word(file.at("norm"), kNorms);
  model.norm_weight = file.boolean_or("norm_weight", true);
  model.norm_bias = file.boolean_or("norm_bias", true);
  model.final_norm = file.boolean_or("final_norm", true);
  model.embedding_norm = file.boolean_or("embedding_norm", false);
  model.positions = read_word(file.at("positions"), kPositions);
  model.rotary_base = number_or(file, "rotary_base", model.rotary_base);
  model.norm_epsilon = number_or(file, "norm_epsilon", model.norm_epsilon);
  model.position_rows = size_or(file, "position_rows", 0);
  model.relative_buckets = size_or(file, "relative_buckets", 0);
  model.embedding_size = size_or(file, "embedding_size", 0);
  model.encoder_layers = size_or(file, "encoder_layers", 0);
  model.tied = file.at("tied").boolean();
  model.head_bias = file.boolean_or("head_bias", false);
}

void validate_in(const JsonView& file, const ModelSpec& model) {
  try {
    validate(model);
  } catch (const Error& error) {
    file.fail(error.what(), error.hint());
  }
}

}  // namespace

ModelSpec read_model_file(const JsonView& file) {
  file.allow_only({"name",
                   "aliases",
                   "hub_id",
                   "source",
                   "hidden",
                   "vocab",
                   "sequence",
                   "norm",
                   "norm_weight",
                   "norm_bias",
                   "final_norm",
                   "embedding_norm",
                   "positions",
                   "rotary_base",
                   "norm_epsilon",
                   "position_rows",
                   "relative_buckets",
                   "embedding_size",
                   "encoder_layers",
                   "tied",
                   "head_bias",
                   "global_batch",
                   "published_parameters",
                   "published_active_parameters",
                   "layers"});
  ModelSpec model;
  model.name = file.at("name").string();
  model.aliases = read_aliases(file);
  model.hub_id = file.string_or("hub_id", "");
  model.source = file.at("source").string();
  model.hidden = read_size(file.at("hidden"));
  model.vocab = read_size(file.at("vocab"));
  model.sequence = read_size(file.at("sequence"));
  model.global_batch = size_or(file, "global_batch", 0);
  model.published_parameters = read_count(file, "published_parameters");
  model.published_active_parameters =
      read_count(file, "published_active_parameters");
  read_ends(model, file);
  read_layers(model, file.at("layers"));
  validate_in(file, model);
  return model;
}

ModelSpec parse_model_file(std::string_view text, std::string origin) {
  return read_model_file(JsonView::parse(text, std::move(origin)));
}

}  // namespace ztplan
