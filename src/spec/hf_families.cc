#include "spec/hf_families.h"

#include <algorithm>
#include <utility>

#include "spec/hf_layouts.h"

namespace ztplan {
namespace {

// Keys of the first GPT-2 files, which GPT-J has too.
constexpr HfNames kGpt2Names = {.layers = "n_layer|num_hidden_layers",
                                .hidden = "n_embd|hidden_size",
                                .heads = "n_head|num_attention_heads",
                                .kv_heads = "",
                                .head_size = "",
                                .ffn = "n_inner",
                                .activation = "activation_function",
                                .positions = "n_positions|n_ctx"};
constexpr HfNames kOptNames = {.hidden = "hidden_size|d_model",
                               .kv_heads = "",
                               .head_size = "",
                               .ffn = "ffn_dim",
                               .activation = "activation_function"};
constexpr HfNames kBloomNames = {.layers = "n_layer|num_hidden_layers",
                                 .hidden = "n_embed|hidden_size",
                                 .heads = "n_head|num_attention_heads",
                                 .kv_heads = "",
                                 .head_size = "",
                                 .ffn = "",
                                 .activation = "",
                                 .positions = "seq_length"};
constexpr HfNames kFalconNames = {.layers = "num_hidden_layers|n_layer",
                                  .hidden = "n_embed|hidden_size",
                                  .heads = "num_attention_heads|n_head",
                                  .kv_heads = "num_kv_heads|n_head_kv",
                                  .head_size = "",
                                  .ffn = "ffn_hidden_size",
                                  .activation = "activation"};
constexpr HfNames kT5Names = {.layers = "num_layers|num_hidden_layers",
                              .hidden = "d_model|hidden_size",
                              .heads = "num_heads|num_attention_heads",
                              .kv_heads = "",
                              .head_size = "d_kv|head_dim",
                              .ffn = "d_ff",
                              .activation = "feed_forward_proj",
                              .positions = "n_positions"};
constexpr HfNames kMptNames = {.layers = "n_layers|num_hidden_layers",
                               .hidden = "d_model|hidden_size",
                               .heads = "n_heads|num_attention_heads",
                               .kv_heads = "",
                               .head_size = "",
                               .ffn = "",
                               .activation = "",
                               .positions = "max_seq_len"};
constexpr HfNames kPlainHeads = {.kv_heads = "", .head_size = ""};
constexpr HfNames kGemmaNames = {.activation = "hidden_activation"};
constexpr HfNames kUsual = {};

constexpr HfStyle kLlama = {};
constexpr HfStyle kGemma = {.activation = "gelu_pytorch_tanh"};
constexpr HfStyle kSandwich = {.norms = 4};
constexpr HfStyle kGemmaSandwich = {.norms = 4,
                                    .activation = "gelu_pytorch_tanh"};
constexpr HfStyle kLayerNorm = {.norm = Norm::layer};
constexpr HfStyle kNemotron = {
    .norm = Norm::layer, .gated = false, .activation = "relu2"};
constexpr HfStyle kGpt2 = {.norm = Norm::layer,
                           .positions = Positions::learned,
                           .gated = false,
                           .activation = "gelu_new"};
constexpr HfStyle kOpt = {.norm = Norm::layer,
                          .positions = Positions::learned,
                          .gated = false,
                          .activation = "relu"};
constexpr HfStyle kNeoX = {
    .norm = Norm::layer, .gated = false, .activation = "gelu"};
constexpr HfStyle kParallel = {
    .norm = Norm::layer, .norms = 1, .gated = false, .activation = "gelu_new"};
constexpr HfStyle kAlibi = {.norm = Norm::layer,
                            .positions = Positions::alibi,
                            .gated = false,
                            .activation = "gelu"};
constexpr HfStyle kStarcoder = {
    .norm = Norm::layer, .gated = false, .activation = "gelu_pytorch_tanh"};
constexpr HfStyle kT5 = {
    .positions = Positions::relative, .gated = false, .activation = "relu"};

constexpr bool kDivides = true;  // hidden_divides
constexpr bool kToy = true;      // is_toy

// Lengths that a file of the family does not have (bloom, t5) are those its
// models were trained with.
// clang-format off
constexpr HfFamily kFamilies[] = {
    // {layers, hidden, heads, kv_heads, head_size, ffn, vocab, positions, tied}
    {"bloom", {2, 64, 8, 0, 0, 0, 250880, 2048, true},
     lay_out_bloom, kBloomNames, kAlibi, false, kToy},
    {"deepseek_v2", {32, 4096, 32, 0, 0, 11008, 102400, 2048, false},
     lay_out_deepseek_v2, kPlainHeads, kLlama, kDivides, kToy},
    {"deepseek_v3", {61, 7168, 128, 0, 0, 18432, 129280, 4096, false},
     lay_out_deepseek_v3, kPlainHeads, kLlama},
    {"falcon", {32, 4544, 71, 0, 0, 0, 65024, 2048, true},
     lay_out_falcon, kFalconNames, kNeoX},
    {"gemma", {28, 3072, 16, 16, 256, 24576, 256000, 8192, true},
     lay_out_gemma, kUsual, kGemma},
    {"gemma2", {26, 2304, 8, 4, 256, 9216, 256000, 8192, true},
     lay_out_gemma2, kGemmaNames, kGemmaSandwich, kDivides},
    {"gemma3_text", {26, 2304, 8, 4, 256, 9216, 262208, 131072, true},
     lay_out_gemma3, kGemmaNames, kGemmaSandwich},
    {"glm4", {40, 4096, 32, 2, 128, 13696, 151552, 131072, false},
     lay_out_glm4, kUsual, kSandwich},
    {"glm4_moe", {46, 4096, 96, 8, 0, 10944, 151552, 131072, false},
     lay_out_glm4_moe, kUsual, kLlama},
    {"gpt2", {12, 768, 12, 0, 0, 0, 50257, 1024, true},
     lay_out_gpt2, kGpt2Names, kGpt2},
    {"gpt_neox", {44, 6144, 64, 0, 0, 24576, 50432, 2048, false},
     lay_out_gpt_neox, kPlainHeads, kNeoX, kDivides},
    {"gpt_oss", {36, 2880, 64, 8, 64, 2880, 201088, 131072, false},
     lay_out_gpt_oss, kUsual, kLlama},
    {"gptj", {28, 4096, 16, 0, 0, 0, 50400, 2048, false},
     lay_out_gptj, kGpt2Names, kParallel},
    {"kimi_k2", {61, 7168, 128, 0, 0, 18432, 129280, 4096, false},
     lay_out_deepseek_v3, kPlainHeads, kLlama},
    {"llama", {32, 4096, 32, 0, 0, 11008, 32000, 2048, false},
     lay_out_llama, kUsual, kLlama, kDivides},
    {"llama4_text", {48, 5120, 40, 8, 128, 8192, 202048, 131072, false},
     lay_out_llama4, kUsual, kLlama},
    {"mistral", {32, 4096, 32, 8, 0, 14336, 32000, 131072, false},
     lay_out_mistral, kUsual, kLlama},
    {"mixtral", {32, 4096, 32, 8, 0, 14336, 32000, 131072, false},
     lay_out_mixtral, kUsual, kLlama},
    {"mpt", {24, 2048, 16, 0, 0, 0, 50368, 2048, true},
     lay_out_mpt, kMptNames, kAlibi},
    {"nemotron", {32, 6144, 48, 0, 0, 24576, 256000, 4096, false},
     lay_out_llama, kUsual, kNemotron},
    {"olmo", {32, 4096, 32, 0, 0, 11008, 50304, 2048, false},
     lay_out_olmo, kUsual, kLayerNorm},
    {"olmo2", {32, 4096, 32, 0, 0, 11008, 50304, 2048, false},
     lay_out_olmo2, kUsual, kLlama},
    {"olmoe", {16, 2048, 16, 0, 0, 2048, 50304, 4096, false},
     lay_out_olmoe, kUsual, kLlama},
    {"opt", {12, 768, 12, 0, 0, 3072, 50272, 2048, true},
     lay_out_opt, kOptNames, kOpt},
    {"phi", {24, 2048, 32, 0, 0, 8192, 51200, 2048, false},
     lay_out_phi, kUsual, kParallel},
    {"phi3", {32, 3072, 32, 0, 0, 8192, 32064, 4096, false},
     lay_out_phi3, kUsual, kLlama},
    {"phimoe", {32, 4096, 32, 8, 0, 6400, 32064, 131072, false},
     lay_out_phimoe, kUsual, kLayerNorm},
    {"qwen2", {32, 4096, 32, 32, 0, 22016, 151936, 32768, false},
     lay_out_qwen2, kUsual, kLlama},
    {"qwen2_moe", {24, 2048, 16, 16, 0, 5632, 151936, 32768, false},
     lay_out_qwen2_moe, kUsual, kLlama},
    {"qwen3", {32, 4096, 32, 32, 128, 22016, 151936, 32768, false},
     lay_out_qwen3, kUsual, kLlama},
    {"qwen3_moe", {24, 2048, 32, 4, 0, 6144, 151936, 32768, false},
     lay_out_qwen3_moe, kUsual, kLlama},
    {"smollm3", {36, 2048, 16, 4, 0, 11008, 128256, 32768, true},
     lay_out_smollm3, kUsual, kLlama},
    {"starcoder2", {30, 3072, 24, 2, 0, 12288, 49152, 4096, true},
     lay_out_starcoder2, kUsual, kStarcoder},
    {"t5", {6, 512, 8, 0, 64, 2048, 32128, 512, true},
     lay_out_t5, kT5Names, kT5},
};
// clang-format on

// Multimodal configurations whose text_config has the defaults of a family.
constexpr std::pair<std::string_view, std::string_view> kWrappers[] = {
    {"gemma3", "gemma3_text"},
    {"llama4", "llama4_text"},
    {"mistral3", "mistral"},
};

}  // namespace

std::span<const HfFamily> hf_families() { return kFamilies; }

const HfFamily* find_hf_family(std::string_view model_type) {
  for (const auto& [wrapper, text] : kWrappers)
    if (wrapper == model_type) model_type = text;
  const auto at =
      std::ranges::find(kFamilies, model_type, &HfFamily::model_type);
  return at == std::end(kFamilies) ? nullptr : at;
}

}  // namespace ztplan
