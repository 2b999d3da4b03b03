// What can be a model: bounds of every field of ModelSpec, and how they depend
// on each other.
#include <fmt/format.h>

#include <initializer_list>

#include "base/error.h"
#include "base/quote.h"
#include "spec/model.h"

namespace ztplan {
namespace {

// Far above anything published, low enough that products stay in 64 bits: a
// layer has at most 65536 experts * 3 * 10^6 * 10^7 = 2e18 parameters.
constexpr int kMostLayers = 10'000;
constexpr int kMostHidden = 1'000'000;
constexpr int kMostWidth = 10'000'000;
constexpr int kMostTokens = 100'000'000;  // vocabulary, sequence, positions
constexpr int kMostHeads = 65'536;
constexpr int kMostHeadSize = 65'536;
constexpr int kMostExperts = 65'536;
constexpr int kMostBatch = 100'000'000;
constexpr double kMostParameters = 1e15;  // 18 bytes of each: 1.8e16
constexpr double kMostScores = 1e18;      // heads * sequence^2

[[noreturn]] void refuse(const ModelSpec& model, const std::string& complaint) {
  throw Error(fmt::format("model {}: {}", quote(model.name), complaint));
}

struct Bound {
  const char* field;
  int value, low, high;
};

void check(const ModelSpec& model, const std::string& where,
           std::initializer_list<Bound> bounds) {
  for (const Bound& b : bounds) {
    if (b.low <= b.value && b.value <= b.high) continue;
    if (b.low == b.high)
      refuse(model, fmt::format("{}{} must be {}, not {}", where, b.field,
                                b.low, b.value));
    refuse(model, fmt::format("{}{} must be {} to {}, not {}", where, b.field,
                              b.low, b.high, b.value));
  }
}

void check_latent(const ModelSpec& model, const std::string& where,
                  const Attention& a) {
  const Latent& latent = a.latent;
  check(model, where + "latent.",
        {{"q_rank", latent.q_rank, 0, kMostHidden},
         {"kv_rank", latent.kv_rank, 1, kMostHidden},
         {"nope_size", latent.nope_size, 1, kMostHeadSize},
         {"rope_size", latent.rope_size, 0, kMostHeadSize},
         {"value_size", latent.value_size, 1, kMostHeadSize}});
  const int size = latent.nope_size + latent.rope_size;
  check(model, where,
        {{"kv_heads", a.kv_heads, a.heads, a.heads},
         {"head_size", a.head_size, size, size}});
}

void check_attention(const ModelSpec& model, const std::string& where,
                     const Attention& a) {
  check(model, where,
        {{"heads", a.heads, 1, kMostHeads},
         {"kv_heads", a.kv_heads, 1, a.heads},
         {"head_size", a.head_size, 1, kMostHeadSize},
         {"window", a.window, 0, kMostTokens}});
  if (a.heads % a.kv_heads != 0)
    refuse(model, fmt::format("{}kv_heads must divide {} heads, not {}", where,
                              a.heads, a.kv_heads));
  if (static_cast<std::int64_t>(a.heads) * a.head_size > kMostWidth)
    refuse(model,
           fmt::format("{}heads * head_size must be at most {}, not {}", where,
                       kMostWidth,
                       static_cast<std::int64_t>(a.heads) * a.head_size));
  if (a.latent != Latent{}) check_latent(model, where, a);
}

void check_experts(const ModelSpec& model, const std::string& where,
                   const FeedForward& f) {
  check(model, where,
        {{"experts", f.experts, 1, kMostExperts},
         {"top_k", f.top_k, 1, f.experts},
         {"expert_width", f.expert_width, 1, kMostWidth},
         {"width", f.width, 0, kMostWidth},
         {"shared_width", f.shared_width, 0, kMostWidth},
         {"shared_bias", f.shared_bias, 0, f.shared_width > 0}});
}

void check_ffn(const ModelSpec& model, const std::string& where,
               const FeedForward& f) {
  check(model, where, {{"experts", f.experts, 0, kMostExperts}});
  if (f.is_moe()) return check_experts(model, where, f);
  check(model, where,
        {{"width", f.width, 1, kMostWidth},
         {"top_k", f.top_k, 0, 0},
         {"expert_width", f.expert_width, 0, 0},
         {"shared_width", f.shared_width, 0, 0},
         {"shared_bias", f.shared_bias, 0, 0},
         {"shared_gate", f.shared_gate, 0, 0},
         {"router_bias", f.router_bias, 0, 0}});
}

void check_group(const ModelSpec& model, std::size_t index) {
  const LayerGroup& group = model.layers[index];
  const std::string where = fmt::format("layers[{}].", index);
  check(model, where,
        {{"count", group.count, 1, kMostLayers},
         {"norms", group.layer.norms, 0, 4}});
  check_attention(model, where + "attention.", group.layer.attention);
  check_ffn(model, where + "ffn.", group.layer.ffn);
}

/// Sums as floating point first: whole numbers might overflow.
void check_size(const ModelSpec& model) {
  double layers = 0, parameters = 0;
  for (const LayerGroup& group : model.layers) {
    layers += group.count;
    parameters +=
        static_cast<double>(group.count) *
        static_cast<double>(layer_parameters(model, group.layer).total());
  }
  if (layers > kMostLayers)
    refuse(model, fmt::format("layers must be 1 to {} together, not {}",
                              kMostLayers, layers));
  if (parameters > kMostParameters)
    refuse(model, fmt::format("{:.3g} parameters are more than {:.0g}",
                              parameters, kMostParameters));
}

void check_scores(const ModelSpec& model) {
  const double tokens = model.sequence;
  for (const LayerGroup& group : model.layers)
    if (group.layer.attention.heads * tokens * tokens > kMostScores)
      refuse(model, fmt::format("sequence is too long for {} heads: heads * "
                                "sequence^2 must be at most {:.0g}",
                                group.layer.attention.heads, kMostScores));
}

void check_positions(const ModelSpec& model) {
  const bool is_learned = model.positions == Positions::learned;
  const bool is_relative = model.positions == Positions::relative;
  check(model, "",
        {{"position_rows", model.position_rows, is_learned ? model.sequence : 0,
          is_learned ? kMostTokens : 0},
         {"relative_buckets", model.relative_buckets, is_relative ? 1 : 0,
          is_relative ? kMostHidden : 0}});
}

}  // namespace

void validate(const ModelSpec& model) {
  check(model, "",
        {{"hidden", model.hidden, 1, kMostHidden},
         {"vocab", model.vocab, 1, kMostTokens},
         {"sequence", model.sequence, 1, kMostTokens},
         {"embedding_size", model.embedding_size, 0, kMostHidden},
         {"global_batch", model.global_batch, 0, kMostBatch}});
  check_positions(model);
  if (!(model.rotary_base > 1)) refuse(model, "rotary_base must be above 1");
  if (!(model.norm_epsilon > 0)) refuse(model, "norm_epsilon must be above 0");
  if (model.layers.empty()) refuse(model, "it has no layers");
  for (std::size_t i = 0; i < model.layers.size(); ++i) check_group(model, i);
  check_size(model);
  check_scores(model);
  check(model, "",
        {{"encoder_layers", model.encoder_layers, 0, layer_count(model) - 1}});
}

}  // namespace ztplan
