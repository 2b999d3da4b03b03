// What a transformer is: its layers, shapes and exact parameter counts.
// How it is cut over devices is strategy/'s; where it is read from, catalog's.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ztplan {

/// LayerNorm has weight and bias, RMSNorm a weight.
enum class Norm { layer, rms };
enum class Positions { none, learned, rotary, alibi, relative };
enum class Activation { gelu, relu, silu };
/// Over each head, or over the whole projection.
enum class QkNorm { none, head, full };

/// Latent attention (MLA) of DeepSeek V2/V3. Sizes are a head's, ranks a
/// layer's.
struct Latent {
  int q_rank = 0;   // 0: queries are projected at full rank
  int kv_rank = 0;  // 0: no latent attention at all
  int nope_size = 0;
  int rope_size = 0;
  int value_size = 0;
  auto operator<=>(const Latent&) const = default;
};

struct Attention {
  int heads = 0;      // query heads
  int kv_heads = 0;   // key/value heads: heads (MHA), fewer (GQA), 1 (MQA)
  int head_size = 0;  // heads * head_size need not equal hidden; of queries
                      // and keys (nope + rope) when latent
  bool qkv_bias = false;
  bool output_bias = false;
  QkNorm qk_norm = QkNorm::none;
  bool sinks = false;  // one learned logit a head (gpt-oss)
  bool causal = true;
  bool cross = false;  // a second attention over an encoder (T5 decoder)
  int window = 0;      // tokens a query sees; 0: all
  Latent latent = {};
  auto operator<=>(const Attention&) const = default;
  bool is_latent() const { return latent.kv_rank > 0; }
};

/// A dense MLP, or experts behind a router when `experts` > 0.
struct FeedForward {
  int width = 0;  // of the dense MLP; unused in a layer of experts
  bool gated = false;
  bool bias = false;
  bool clamped = false;  // the inputs of the activation (gpt-oss)
  Activation activation = Activation::gelu;
  int experts = 0;
  int top_k = 0;
  int expert_width = 0;
  int shared_width = 0;  // of all shared experts together; 0: none
  bool shared_bias =
      false;  // of the shared experts, where the others have none
  bool shared_gate = false;
  bool router_bias = false;
  auto operator<=>(const FeedForward&) const = default;
  bool is_moe() const { return experts > 0; }
};

struct Layer {
  Attention attention;
  FeedForward ffn;
  int norms = 2;  // norms over hidden: 1 (parallel), 2, 3 (cross), 4 (sandwich)
  auto operator<=>(const Layer&) const = default;
};

/// `count` equal layers in a row.
struct LayerGroup {
  int count = 0;
  Layer layer;
  auto operator<=>(const LayerGroup&) const = default;
};

struct ModelSpec {
  std::string name;
  std::vector<std::string> aliases;
  std::string hub_id;  // e.g. "meta-llama/Llama-3.1-8B", or empty
  int hidden = 0;
  int vocab = 0;     // unpadded
  int sequence = 0;  // tokens of one, unless --seq says otherwise
  Norm norm = Norm::layer;
  bool norm_weight = true;  // false: plain normalization (OLMo)
  bool norm_bias = true;    // of LayerNorm; false: weight alone (MPT)
  Positions positions = Positions::learned;
  double rotary_base = 10000;  // theta of rotary positions
  double norm_epsilon = 1e-5;  // beside the variance
  int position_rows = 0;   // rows of a learned table (OPT: max positions + 2)
  bool tied = false;       // the head is the embedding, counted once
  bool head_bias = false;  // one a word (GPT-J, Phi-2)
  bool embedding_norm = false;  // BLOOM
  bool final_norm = true;
  int embedding_size = 0;    // OPT-350m: 512, projected to hidden; 0: hidden
  int relative_buckets = 0;  // T5: rows of the bias table of each stack
  int encoder_layers = 0;    // T5: leading layers that form the encoder
  std::vector<LayerGroup> layers;  // in order, encoder first
  int global_batch = 0;  // sequences a step in its publication; 0: not known
  std::string source;    // document, table, date
  std::optional<std::int64_t> published_parameters;
  std::optional<std::int64_t> published_active_parameters;
};

/// Parameters of one layer by how a strategy may cut them. Every parameter is
/// in exactly one part.
struct LayerParameters {
  /// Query projection and its bias, output projection, sinks; of latent
  /// attention the up projections from either latent.
  std::int64_t attention = 0;
  /// Key and value projections and their biases: cut at most kv_heads ways.
  /// 0 in latent attention.
  std::int64_t key_value = 0;
  /// Dense MLP or shared experts, with the biases of their first matrices.
  std::int64_t mlp = 0;
  /// Routed experts with all their biases.
  std::int64_t experts = 0;
  /// Norms (also of queries, keys and latents), router and its bias, shared
  /// gate, biases of output and second MLP matrix, latent down projections.
  std::int64_t replicated = 0;
  std::int64_t total() const {
    return attention + key_value + mlp + experts + replicated;
  }
};

LayerParameters layer_parameters(const ModelSpec& model, const Layer& layer);

/// Token embedding [vocab, embedding_size], without positions.
std::int64_t embedding_parameters(const ModelSpec& model);
/// Beside the embedding: learned positions [position_rows, hidden], embedding
/// norm, projections from and to embedding_size, and the relative bias tables
/// [relative_buckets, heads] that the first layer of each stack owns.
std::int64_t embedding_extra_parameters(const ModelSpec& model);
/// Output matrix [embedding_size or hidden, vocab], 0 when tied, and its bias.
std::int64_t head_parameters(const ModelSpec& model);
/// One norm a stack: an encoder has its own.
std::int64_t final_norm_parameters(const ModelSpec& model);

/// All trainable parameters, tied weights once. Exact.
std::int64_t parameters(const ModelSpec& model);
/// Those a token passes through: total less the experts it is not routed to.
std::int64_t active_parameters(const ModelSpec& model);

int layer_count(const ModelSpec& model);

/// Adds `count` layers at the end: to the last group when they equal its own.
void append_layers(ModelSpec& model, int count, const Layer& layer);

/// The distinct layers of a model, and which of them each position holds.
struct LayerKinds {
  std::vector<Layer> kinds;
  std::vector<int> kind_of_layer;  // [layer_count]
};
LayerKinds layer_kinds(const ModelSpec& model);

/// Throws `Error` naming the first field that cannot be a model and what it may
/// be. What passes has counts and shapes whose products fit in 64 bits.
void validate(const ModelSpec& model);

}  // namespace ztplan
