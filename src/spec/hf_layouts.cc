#include "spec/hf_layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace ztplan {
namespace {

constexpr int kLargestWidth = 10'000'000;  // as validate

void bias_all(HfReading& r, std::string_view key, bool absent) {
  const bool biased = r.keys.flag(key, absent);
  r.layer.attention.qkv_bias = biased;
  r.layer.attention.output_bias = biased;
}

void bias_qkv(HfReading& r, std::string_view key, bool absent) {
  r.layer.attention.qkv_bias = r.keys.flag(key, absent);
}

void bias_everything(HfReading& r, bool biased) {
  r.layer.attention.qkv_bias = biased;
  r.layer.attention.output_bias = biased;
  r.layer.ffn.bias = biased;
}

/// Layers for which `holds`, by index from 0.
template <class Rule>
std::vector<bool> layers_where(const HfReading& r, Rule holds) {
  std::vector<bool> found;
  found.reserve(static_cast<std::size_t>(r.layers));
  for (int i = 0; i < r.layers; ++i) found.push_back(holds(i));
  return found;
}

/// Null: no window.
void read_window(HfReading& r, int absent) {
  r.window = r.keys.size_or_null("sliding_window", absent, 0);
}

void slide_all(HfReading& r, int absent) {
  read_window(r, absent);
  r.slides = layers_where(r, [](int) { return true; });
}

/// All but each `full_every`-th layer.
void slide_between(HfReading& r, int absent, int full_every) {
  read_window(r, absent);
  r.slides = layers_where(r, [&](int i) { return (i + 1) % full_every != 0; });
}

/// Qwen2, Qwen3: layers from max_window_layers on, when switched on.
void slide_late(HfReading& r) {
  constexpr int kWindow = 4096, kFirst = 28;
  read_window(r, kWindow);
  const int first = r.keys.size("max_window_layers", kFirst);
  const bool on = r.keys.flag("use_sliding_window", false);
  r.slides = layers_where(r, [&](int i) { return on && i >= first; });
}

/// Experts like the dense MLP in all but number and width.
FeedForward make_experts(const HfReading& r, int experts, int top_k,
                         int width) {
  FeedForward f = r.layer.ffn;
  f.width = 0;
  f.experts = experts;
  f.top_k = top_k;
  f.expert_width = width;
  return f;
}

template <class Rule>
void route(HfReading& r, const FeedForward& experts, Rule has_experts) {
  if (experts.experts == 0) return;
  r.experts = experts;
  r.has_experts = layers_where(r, has_experts);
}

bool every_layer(int) { return true; }

/// Mixtral, PhiMoE: experts as wide as a dense MLP, two a token.
void route_mixtral(HfReading& r, int absent) {
  const int count = r.keys.size("num_local_experts|num_experts", absent);
  const int top_k = r.keys.size("num_experts_per_tok", 2);
  route(r, make_experts(r, count, top_k, r.layer.ffn.width), every_layer);
}

int read_positive(const HfReading& r, std::string_view key, int absent) {
  const int value = r.keys.size(key, absent);
  if (value < 1) r.keys.fail(key, "expected at least 1", "");
  return value;
}

/// Qwen MoE: i is sparse unless listed, at each decoder_sparse_step.
void route_qwen(HfReading& r, const FeedForward& experts) {
  const int step = read_positive(r, "decoder_sparse_step", 1);
  const std::vector<int> dense = r.keys.sizes("mlp_only_layers");
  route(r, experts, [&](int i) {
    const bool is_listed = std::ranges::find(dense, i) != dense.end();
    return !is_listed && (i + 1) % step == 0;
  });
}

/// DeepSeek's shared experts are one MLP of their common width.
int shared_width(const HfReading& r, int shared, int width) {
  const std::int64_t both = std::int64_t{shared} * width;
  if (both > kLargestWidth)
    r.keys.fail("n_shared_experts",
                fmt::format("{} shared experts of width {} are too wide",
                            shared, width),
                "");
  return static_cast<int>(both);
}

struct DeepDefaults {
  int experts, top_k, width, shared, first_sparse;
};

/// DeepSeek V2/V3 and GLM-4 MoE: dense layers first. moe_layer_freq is a key
/// of DeepSeek's own code; without experts all layers are dense. Biases are of
/// MLPs and shared experts, never of the routed ones. Source: huggingface/
/// transformers models/deepseek_v2/modeling_deepseek_v2.py, DeepseekV2Experts.
void route_deep(HfReading& r, const DeepDefaults& absent) {
  const int count = r.keys.size_or_null(
      "n_routed_experts|num_experts|num_local_experts", absent.experts, 0);
  if (count == 0) return;
  const int width = r.keys.size("moe_intermediate_size", absent.width);
  const int top_k = r.keys.size("num_experts_per_tok", absent.top_k);
  if (top_k < 1)
    r.keys.fail("num_experts_per_tok", "num_experts_per_tok is missing", "");
  FeedForward experts = make_experts(r, count, top_k, width);
  experts.shared_width = shared_width(
      r, r.keys.size_or_null("n_shared_experts", absent.shared, 0), width);
  experts.shared_bias = experts.bias && experts.shared_width > 0;
  experts.bias = false;
  const int first = r.keys.size("first_k_dense_replace", absent.first_sparse);
  const int step = read_positive(r, "moe_layer_freq", 1);
  route(r, experts, [&](int i) { return i >= first && i % step == 0; });
}

/// head_dim and num_key_value_heads say nothing here: files that transformers
/// saved carry qk_rope_head_dim as head_dim.
void attend_latent(HfReading& r) {
  Attention& a = r.layer.attention;
  a.latent = {.q_rank = r.keys.size_or_null("q_lora_rank", 1536, 0),
              .kv_rank = r.keys.size("kv_lora_rank", 512),
              .nope_size = r.keys.size("qk_nope_head_dim", 128),
              .rope_size = r.keys.size("qk_rope_head_dim", 64),
              .value_size = r.keys.size("v_head_dim", 128)};
  a.kv_heads = a.heads;
  a.head_size = a.latent.nope_size + a.latent.rope_size;
  bias_all(r, "attention_bias", false);
}

}  // namespace

void lay_out_bloom(HfReading& r) {
  bias_everything(r, true);
  r.model.embedding_norm = true;
}

void lay_out_deepseek_v2(HfReading& r) {
  attend_latent(r);
  r.layer.ffn.bias = r.keys.flag("mlp_bias", false);
  route_deep(r, {64, 0, 1407, 2, 0});
}

void lay_out_deepseek_v3(HfReading& r) {
  attend_latent(r);
  route_deep(r, {256, 8, 2048, 1, 3});
}

/// Multi-query unless the new architecture; norms one, or two when attention
/// and MLP are not parallel or each have their own.
void lay_out_falcon(HfReading& r) {
  const bool is_new = r.keys.flag("new_decoder_architecture", false);
  Attention& a = r.layer.attention;
  if (!is_new) a.kv_heads = r.keys.flag("multi_query", true) ? 1 : a.heads;
  bias_everything(r, r.keys.flag("bias", false));
  const int parallel_norms = is_new ? 2 : 1;
  const bool is_parallel = r.keys.flag("parallel_attn", true);
  const int norms = r.keys.size_or_null("num_ln_in_parallel_attn",
                                        parallel_norms, parallel_norms);
  r.layer.norms = !is_parallel || norms == 2 ? 2 : 1;
  if (r.keys.flag("alibi", false)) r.model.positions = Positions::alibi;
}

void lay_out_gemma(HfReading& r) { bias_all(r, "attention_bias", false); }

void lay_out_gemma2(HfReading& r) {
  bias_all(r, "attention_bias", false);
  slide_between(r, 4096, 2);
}

void lay_out_gemma3(HfReading& r) {
  constexpr std::string_view kPattern =
      "sliding_window_pattern|_sliding_window_pattern";
  bias_all(r, "attention_bias", false);
  r.layer.attention.qk_norm = QkNorm::head;
  slide_between(r, 4096, read_positive(r, kPattern, 6));
}

void lay_out_glm4(HfReading& r) { bias_qkv(r, "attention_bias", true); }

void lay_out_glm4_moe(HfReading& r) {
  bias_qkv(r, "attention_bias", false);
  const bool has_norm = r.keys.flag("use_qk_norm", false);
  r.layer.attention.qk_norm = has_norm ? QkNorm::head : QkNorm::none;
  route_deep(r, {128, 8, 1408, 1, 1});
}

void lay_out_gpt2(HfReading& r) {
  bias_everything(r, true);
  r.model.position_rows = r.positions;
}

void lay_out_gpt_neox(HfReading& r) {
  bias_all(r, "attention_bias", true);
  r.layer.ffn.bias = true;
}

void lay_out_gpt_oss(HfReading& r) {
  bias_all(r, "attention_bias", true);
  r.layer.attention.sinks = true;
  FeedForward experts =
      make_experts(r, r.keys.size("num_local_experts|num_experts", 128),
                   r.keys.size("num_experts_per_tok|experts_per_token", 4),
                   r.layer.ffn.width);
  experts.bias = experts.clamped = true;
  experts.router_bias = true;
  route(r, experts, every_layer);
  slide_between(r, 128, 2);
}

void lay_out_gptj(HfReading& r) {
  r.layer.ffn.bias = true;
  r.model.head_bias = true;
}

void lay_out_llama(HfReading& r) {
  bias_all(r, "attention_bias", false);
  r.layer.ffn.bias = r.keys.flag("mlp_bias", false);
}

/// Layers without rotary positions see all tokens, the others their chunk.
void lay_out_llama4(HfReading& r) {
  bias_all(r, "attention_bias", false);
  const int width = r.layer.ffn.width;
  FeedForward experts =
      make_experts(r, r.keys.size("num_local_experts", 16),
                   r.keys.size("num_experts_per_tok", 1), width);
  experts.shared_width = width;
  r.layer.ffn.width = r.keys.size("intermediate_size_mlp", 16384);
  const std::vector<int> listed = r.keys.sizes("moe_layers");
  const int step = read_positive(r, "interleave_moe_layer_step", 1);
  const bool has_list = r.keys.has("moe_layers");
  route(r, experts, [&](int i) {
    if (has_list) return std::ranges::find(listed, i) != listed.end();
    return (i + 1) % step == 0;
  });
  const std::vector<int> rotates = r.keys.sizes("no_rope_layers");
  const int interval = read_positive(r, "no_rope_layer_interval", 4);
  r.window = r.keys.size_or_null("attention_chunk_size", 8192, 0);
  r.slides = layers_where(r, [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    return at < rotates.size() ? rotates[at] != 0 : (i + 1) % interval != 0;
  });
}

void lay_out_mistral(HfReading& r) { slide_all(r, 4096); }

void lay_out_mixtral(HfReading& r) {
  slide_all(r, 0);
  route_mixtral(r, 8);
}

void lay_out_mpt(HfReading& r) {
  if (!r.keys.flag("no_bias", true))
    r.keys.fail("no_bias", "MPT with biases is not known to transformers",
                "describe it in a model file, as models/mpt-7b.json");
  r.model.norm_bias = false;
}

void lay_out_olmo(HfReading& r) {
  bias_all(r, "attention_bias", false);
  r.model.norm_weight = false;
}

void lay_out_olmo2(HfReading& r) {
  bias_all(r, "attention_bias", false);
  r.layer.attention.qk_norm = QkNorm::full;
}

void lay_out_olmoe(HfReading& r) {
  lay_out_olmo2(r);
  route(r,
        make_experts(r, r.keys.size("num_experts|num_local_experts", 64),
                     r.keys.size("num_experts_per_tok", 8), r.layer.ffn.width),
        every_layer);
}

/// Two rows of the position table are padding. OPT-350m is post-norm, with
/// narrow embeddings.
void lay_out_opt(HfReading& r) {
  constexpr int kPaddingRows = 2;
  bias_everything(r, r.keys.flag("enable_bias", true));
  r.model.position_rows = r.positions + kPaddingRows;
  r.model.norm_weight = r.keys.flag("layer_norm_elementwise_affine", true);
  r.model.final_norm = r.keys.flag("do_layer_norm_before", true) &&
                       !r.keys.flag("_remove_final_layer_norm", false);
  const int width = r.keys.size_or_null("word_embed_proj_dim", 0, 0);
  r.model.embedding_size = width == r.model.hidden ? 0 : width;
}

void lay_out_phi(HfReading& r) {
  bias_everything(r, true);
  r.model.head_bias = true;
  if (r.keys.flag("qk_layernorm", false))
    r.layer.attention.qk_norm = QkNorm::head;
}

void lay_out_phi3(HfReading& r) { slide_all(r, 0); }

void lay_out_phimoe(HfReading& r) {
  bias_all(r, "attention_bias", false);
  r.model.head_bias = r.keys.flag("lm_head_bias", false);
  slide_all(r, 0);
  route_mixtral(r, 16);
}

void lay_out_qwen2(HfReading& r) {
  r.layer.attention.qkv_bias = true;
  slide_late(r);
}

void lay_out_qwen2_moe(HfReading& r) {
  bias_qkv(r, "qkv_bias", true);
  slide_late(r);
  FeedForward experts =
      make_experts(r, r.keys.size("num_experts|num_local_experts", 60),
                   r.keys.size("num_experts_per_tok", 4),
                   r.keys.size("moe_intermediate_size", 1408));
  experts.shared_width = r.keys.size("shared_expert_intermediate_size", 5632);
  experts.shared_gate = true;  // even of shared experts without width
  route_qwen(r, experts);
}

void lay_out_qwen3(HfReading& r) {
  bias_all(r, "attention_bias", false);
  r.layer.attention.qk_norm = QkNorm::head;
  slide_late(r);
}

void lay_out_qwen3_moe(HfReading& r) {
  lay_out_qwen3(r);
  route_qwen(r,
             make_experts(r, r.keys.size("num_experts|num_local_experts", 128),
                          r.keys.size("num_experts_per_tok", 8),
                          r.keys.size("moe_intermediate_size", 768)));
}

void lay_out_smollm3(HfReading& r) {
  lay_out_llama(r);
  if (r.keys.flag("use_sliding_window", false) && !r.keys.has("layer_types"))
    r.keys.fail("use_sliding_window", "which layers slide is not said",
                "give layer_types");
  read_window(r, 0);
}

void lay_out_starcoder2(HfReading& r) {
  bias_everything(r, r.keys.flag("use_bias", true));
  slide_all(r, 0);
}

/// The decoder attends to itself and to the encoder.
void lay_out_t5(HfReading& r) {
  constexpr int kBuckets = 32;
  r.model.relative_buckets =
      r.keys.size("relative_attention_num_buckets", kBuckets);
  r.model.encoder_layers = r.layers;
  Layer encoder = r.layer;
  encoder.attention.causal = false;
  append_layers(r.model, r.layers, encoder);
  Layer decoder = r.layer;
  decoder.attention.cross = true;
  decoder.norms = 3;
  append_layers(r.model,
                r.keys.size_or_null("num_decoder_layers", r.layers, r.layers),
                decoder);
}

}  // namespace ztplan
