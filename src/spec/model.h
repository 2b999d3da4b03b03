// What a transformer is: its layers, shapes and exact parameter counts.
// How it is cut over devices is strategy/'s; where it is read from, catalog's.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ztplan {

enum class Norm {
  layer,
  rms
};  // LayerNorm has weight and bias, RMSNorm weight
enum class Positions { none, learned, rotary, alibi, relative };
enum class Activation { gelu, relu, silu };
enum class QkNorm {
  none,
  head,
  full
};  // none; over head_size; whole projection

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
  int head_size = 0;  // heads * head_size need not equal hidden
  bool qkv_bias = false;
  bool output_bias = false;
  QkNorm qk_norm = QkNorm::none;
  bool sinks = false;  // one learned logit a head (gpt-oss)
  bool causal = true;
  bool cross = false;  // a second attention over an encoder (T5 decoder)
  int window = 0;      // tokens a query sees; 0: all
  Latent latent;
  auto operator<=>(const Attention&) const = default;
  bool is_latent() const { return latent.kv_rank > 0; }
};

/// A dense MLP, or experts behind a router when `experts` > 0.
struct FeedForward {
  int width = 0;  // of the dense MLP; unused in a layer of experts
  bool gated = false;
  bool bias = false;
  Activation activation = Activation::gelu;
  int experts = 0;
  int top_k = 0;
  int expert_width = 0;
  int shared_width = 0;  // of all shared experts together; 0: none
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
  int vocab = 0;  // unpadded
  int sequence =
      0;  // tokens of a training sequence unless --seq says otherwise
  Norm norm = Norm::layer;
  Positions positions = Positions::learned;
  int position_rows = 0;  // rows of a learned table (OPT: max positions + 2)
  bool tied = false;      // the head is the embedding, counted once
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

/// Parameters of one layer by how a strategy may cut them.
struct LayerParameters {
  std::int64_t attention = 0;  // query, output (and latent up) projections
  std::int64_t key_value =
      0;                     // key and value projections: cut at most kv_heads
  std::int64_t mlp = 0;      // dense MLP and shared experts
  std::int64_t experts = 0;  // routed experts
  std::int64_t replicated =
      0;  // norms, router, row-parallel biases, latent down
  std::int64_t total() const {
    return attention + key_value + mlp + experts + replicated;
  }
};

LayerParameters layer_parameters(const ModelSpec& model, const Layer& layer);

/// Token embedding [vocab, embedding_size], without positions.
std::int64_t embedding_parameters(const ModelSpec& model);
/// Learned positions, embedding norm and projections: beside the embedding.
std::int64_t embedding_extra_parameters(const ModelSpec& model);
/// Output matrix [hidden, vocab]; 0 when tied.
std::int64_t head_parameters(const ModelSpec& model);
std::int64_t final_norm_parameters(const ModelSpec& model);

/// All trainable parameters, tied weights once. Exact.
std::int64_t parameters(const ModelSpec& model);
/// Those a token passes through: total less the experts it is not routed to.
std::int64_t active_parameters(const ModelSpec& model);

int layer_count(const ModelSpec& model);

/// The distinct layers of a model, and which of them each position holds.
struct LayerKinds {
  std::vector<Layer> kinds;
  std::vector<int> kind_of_layer;  // [layer_count]
};
LayerKinds layer_kinds(const ModelSpec& model);

/// Throws `Error` naming the first field that cannot be a model.
void validate(const ModelSpec& model);

}  // namespace ztplan
