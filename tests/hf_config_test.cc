// Hugging Face configurations: published counts, the defaults of each family,
// and the traps of the format.
#include "spec/hf_config.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "spec/catalog.h"

using namespace ztplan;

namespace {

ModelSpec read(const std::string& config) {
  return parse_hf_config(config, "config.json");
}

/// Message and hint of the error that `config` gives.
std::string complaint(const std::string& config) {
  try {
    read(config);
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "";
}

void says(const std::string& config, const std::string& part) {
  const std::string said = complaint(config);
  INFO(config, " said: ", said);
  CHECK(said.find(part) != std::string::npos);
}

const Attention& attention(const ModelSpec& model) {
  return model.layers.front().layer.attention;
}

/// One letter a layer: w has a window, . sees all.
std::string windows(const ModelSpec& model) {
  std::string text;
  for (const LayerGroup& group : model.layers)
    text.append(static_cast<std::size_t>(group.count),
                group.layer.attention.window > 0 ? 'w' : '.');
  return text;
}

/// One letter a layer: e has experts, . is dense.
std::string experts(const ModelSpec& model) {
  std::string text;
  for (const LayerGroup& group : model.layers)
    text.append(static_cast<std::size_t>(group.count),
                group.layer.ffn.is_moe() ? 'e' : '.');
  return text;
}

}  // namespace

TEST_CASE("configurations of the Hub count what was published") {
  const JsonView file =
      JsonView::load(ZTPLAN_SOURCE_DIR "/tests/published/hf_configs.json");
  const JsonView rows = file.at("configs");
  REQUIRE(rows.size() >= 25);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string name = rows[i].at("model").string();
    INFO(name);
    const ModelSpec model = read_hf_config(rows[i].at("config"), name);
    CHECK(parameters(model) == rows[i].at("parameters").integer());
    CHECK(model.name == name);
  }
}

TEST_CASE("a configuration has the layers of the model file of its name") {
  const JsonView rows =
      JsonView::load(ZTPLAN_SOURCE_DIR "/tests/published/hf_configs.json")
          .at("configs");
  int compared = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string name = rows[i].at("model").string();
    // Their windows are longer than any training sequence: not in our files.
    if (name == "microsoft/Phi-4-mini-instruct") continue;
    if (name == "microsoft/Phi-3.5-MoE-instruct") continue;
    const ModelSpec model = read_hf_config(rows[i].at("config"), name);
    INFO(name);
    CHECK(model.layers == load_model(name).layers);
    ++compared;
  }
  CHECK(compared >= 25);
}

TEST_CASE("an absent key takes its family's default") {
  struct Row {
    const char* type;
    int layers, hidden, heads, kv_heads, head_size, width, vocab;
    bool tied;
  };
  // transformers, configuration_<model_type>.py.
  const Row rows[] = {
      {"gpt2", 12, 768, 12, 12, 64, 3072, 50257, true},
      {"gpt_neox", 44, 6144, 64, 64, 96, 24576, 50432, false},
      {"opt", 12, 768, 12, 12, 64, 3072, 50272, true},
      {"falcon", 32, 4544, 71, 1, 64, 18176, 65024, true},
      {"t5", 12, 512, 8, 8, 64, 2048, 32128, true},
      {"llama", 32, 4096, 32, 32, 128, 11008, 32000, false},
      {"mistral", 32, 4096, 32, 8, 128, 14336, 32000, false},
      {"qwen2", 32, 4096, 32, 32, 128, 22016, 151936, false},
      {"qwen3", 32, 4096, 32, 32, 128, 22016, 151936, false},
      {"gemma", 28, 3072, 16, 16, 256, 24576, 256000, true},
      {"gemma2", 26, 2304, 8, 4, 256, 9216, 256000, true},
      {"gemma3_text", 26, 2304, 8, 4, 256, 9216, 262208, true},
      {"gemma3", 26, 2304, 8, 4, 256, 9216, 262208, true},
      {"phi3", 32, 3072, 32, 32, 96, 8192, 32064, false},
      {"glm4", 40, 4096, 32, 2, 128, 13696, 151552, false},
      {"glm4_moe", 46, 4096, 96, 8, 0, 10944, 151552, false},
      {"deepseek_v3", 61, 7168, 128, 128, 192, 18432, 129280, false},
      {"olmo2", 32, 4096, 32, 32, 128, 11008, 50304, false},
      {"smollm3", 36, 2048, 16, 4, 128, 11008, 128256, true},
      {"phi", 24, 2048, 32, 32, 64, 8192, 51200, false},
      {"gptj", 28, 4096, 16, 16, 256, 16384, 50400, false},
      {"mpt", 24, 2048, 16, 16, 128, 8192, 50368, true},
      {"olmo", 32, 4096, 32, 32, 128, 11008, 50304, false},
      {"starcoder2", 30, 3072, 24, 2, 128, 12288, 49152, true},
      {"nemotron", 32, 6144, 48, 48, 128, 24576, 256000, false},
  };
  for (const Row& row : rows) {
    INFO(row.type);
    std::string config = std::string("{\"model_type\": \"") + row.type + '"';
    // 96 heads do not divide 4096: the class alone cannot be built.
    if (row.head_size == 0) config += ", \"head_dim\": 128";
    const ModelSpec m = read(config + "}");
    CHECK(layer_count(m) == row.layers);
    CHECK(m.hidden == row.hidden);
    CHECK(attention(m).heads == row.heads);
    CHECK(attention(m).kv_heads == row.kv_heads);
    CHECK(attention(m).head_size == (row.head_size == 0 ? 128 : row.head_size));
    CHECK(m.layers.front().layer.ffn.width == row.width);
    CHECK(m.vocab == row.vocab);
    CHECK(m.tied == row.tied);
  }
}

TEST_CASE("absent expert keys take their family's defaults") {
  struct Row {
    const char* type;
    int experts, top_k, width, shared, dense_layers;
  };
  const Row rows[] = {
      {"mixtral", 8, 2, 14336, 0, 0},
      {"qwen2_moe", 60, 4, 1408, 5632, 0},
      {"qwen3_moe", 128, 8, 768, 0, 0},
      {"gpt_oss", 128, 4, 2880, 0, 0},
      {"llama4_text", 16, 1, 8192, 8192, 0},
      {"deepseek_v3", 256, 8, 2048, 2048, 3},
      {"olmoe", 64, 8, 2048, 0, 0},
      {"phimoe", 16, 2, 6400, 0, 0},
  };
  for (const Row& row : rows) {
    INFO(row.type);
    const ModelSpec m =
        read(std::string("{\"model_type\": \"") + row.type + "\"}");
    const FeedForward& f = m.layers.back().layer.ffn;
    CHECK(f.experts == row.experts);
    CHECK(f.top_k == row.top_k);
    CHECK(f.expert_width == row.width);
    CHECK(f.shared_width == row.shared);
    CHECK(experts(m).find('e') == static_cast<std::size_t>(row.dense_layers));
  }
}

TEST_CASE("the same absent key means something else in each family") {
  // No tie_word_embeddings: one matrix in GPT-2, two in Llama.
  CHECK(head_parameters(read(R"({"model_type": "gpt2"})")) == 0);
  CHECK(head_parameters(read(R"({"model_type": "llama"})")) == 32000 * 4096);
  CHECK(head_parameters(read(
            R"({"model_type": "llama", "tie_word_embeddings": true})")) == 0);
}

TEST_CASE("the family is model_type, not architectures") {
  CHECK(attention(read(R"({"model_type": "qwen2",
                           "architectures": ["LlamaForCausalLM"]})"))
            .qkv_bias);
}

TEST_CASE("a text model inside a larger one is read from text_config") {
  const ModelSpec m = read(R"({"model_type": "gemma3", "hidden_size": 7,
      "tie_word_embeddings": false,
      "text_config": {"hidden_size": 2560, "num_hidden_layers": 34},
      "vision_config": {"hidden_size": 1152}})");
  CHECK(m.hidden == 2560);
  CHECK(layer_count(m) == 34);
  CHECK_FALSE(m.tied);  // only the outer object says it
  CHECK(m.source.find("text decoder alone") != std::string::npos);
}

TEST_CASE("head_dim absent or null is hidden / heads but for a class default") {
  const auto head_size = [](const std::string& keys) {
    return attention(read("{\"hidden_size\": 1024, \"num_attention_heads\": 16,"
                          "\"num_key_value_heads\": 8, " +
                          keys + "}"))
        .head_size;
  };
  CHECK(head_size(R"("model_type": "llama")") == 64);
  CHECK(head_size(R"("model_type": "llama", "head_dim": null)") == 64);
  CHECK(head_size(R"("model_type": "llama", "head_dim": 128)") == 128);
  CHECK(head_size(R"("model_type": "qwen3")") == 128);
  CHECK(head_size(R"("model_type": "gemma2")") == 256);
  CHECK(head_size(R"("model_type": "gpt_oss")") == 64);
  CHECK(head_size(R"("model_type": "gpt_oss", "head_dim": null)") == 64);
  CHECK(head_size(R"("model_type": "qwen3_moe")") == 64);
}

TEST_CASE("head_dim says nothing in latent attention") {
  const ModelSpec plain = read(R"({"model_type": "deepseek_v3"})");
  const ModelSpec saved =
      read(R"({"model_type": "deepseek_v3", "head_dim": 64})");
  CHECK(parameters(plain) == parameters(saved));
  CHECK(attention(saved).head_size == 192);
}

TEST_CASE("num_key_value_heads null is heads, absent the class default") {
  CHECK(attention(read(R"({"model_type": "mistral"})")).kv_heads == 8);
  CHECK(attention(read(R"({"model_type": "mistral",
                           "num_key_value_heads": null})"))
            .kv_heads == 32);
  CHECK(attention(read(R"({"model_type": "glm4"})")).kv_heads == 2);
  CHECK(attention(read(R"({"model_type": "qwen2", "hidden_size": 1024,
            "num_attention_heads": 64})"))
            .kv_heads == 32);
}

TEST_CASE("both spellings of a key are read") {
  const auto count = [](const std::string& keys) {
    return parameters(read("{" + keys + "}"));
  };
  CHECK(count(R"("model_type": "gpt2", "n_layer": 3)") ==
        count(R"("model_type": "gpt2", "num_hidden_layers": 3)"));
  CHECK(count(R"("model_type": "falcon", "num_hidden_layers": 3)") ==
        count(R"("model_type": "falcon", "n_layer": 3)"));
  CHECK(count(R"("model_type": "mixtral", "num_local_experts": 4)") ==
        count(R"("model_type": "mixtral", "num_experts": 4)"));
  CHECK(count(R"("model_type": "deepseek_v3", "n_routed_experts": 16)") ==
        count(R"("model_type": "deepseek_v3", "num_experts": 16)"));
  CHECK(count(R"("model_type": "opt", "hidden_size": 1536)") ==
        count(R"("model_type": "opt", "d_model": 1536)"));
  CHECK(count(R"("model_type": "bloom", "n_layer": 3, "n_embed": 128)") ==
        count(R"("model_type": "bloom", "num_hidden_layers": 3,
                 "hidden_size": 128, "n_embed": null)"));
  // v4 and v5 of what does not shape the model.
  CHECK(count(R"("model_type": "llama", "torch_dtype": "float16",
                 "rope_theta": 10000.0, "rope_scaling": null)") ==
        count(R"("model_type": "llama", "dtype": "bfloat16",
                 "rope_parameters": {"rope_theta": 10000.0}, "new_key": [])"));
}

TEST_CASE("a known key of the wrong type is refused, as transformers does") {
  says(R"({"model_type": "llama", "vocab_size": 32000.0})",
       "vocab_size: expected a whole number");
  says(R"({"model_type": "llama", "hidden_size": "4096"})",
       "hidden_size: expected a whole number");
  says(R"({"model_type": "llama", "hidden_size": null})",
       "hidden_size: expected a whole number");
  says(R"({"model_type": "llama", "tie_word_embeddings": 1})",
       "tie_word_embeddings: expected true or false");
  says(R"({"model_type": "llama", "num_hidden_layers": -1})",
       "num_hidden_layers: expected a whole number");
  says(R"({"model_type": "gemma3", "text_config": 3})",
       "text_config: expected an object");
  says(R"({"model_type": "qwen3_moe", "mlp_only_layers": 3})",
       "mlp_only_layers: expected an array");
  says(R"({"model_type": 3})", "model_type: expected a string");
  says(R"([])", "expected an object");
}

TEST_CASE("heads must divide hidden, in some families even beside head_dim") {
  const std::string odd = R"("hidden_size": 100, "num_attention_heads": 3)";
  says(R"({"model_type": "qwen2", )" + odd + "}",
       "3 heads must divide hidden_size 100");
  says(R"({"model_type": "llama", "head_dim": 8, )" + odd + "}",
       "3 heads must divide hidden_size 100");
  CHECK(complaint(R"({"model_type": "mistral", "head_dim": 8,
                      "num_key_value_heads": 3, )" +
                  odd + "}") == "");
  says(R"({"model_type": "gpt2", "n_head": 0})",
       "0 heads must divide n_embd 768");
}

TEST_CASE("layer_types say which layers slide, one entry each") {
  const std::string four =
      R"({"model_type": "gemma2", "num_hidden_layers": 4, )";
  CHECK(windows(read(four + R"("layer_types": ["full_attention",
      "sliding_attention", "sliding_attention", "full_attention"]})")) ==
        ".ww.");
  says(four + R"("layer_types": ["full_attention"]})",
       "expected 4 entries, one a layer, found 1");
  says(four + R"("layer_types": ["full_attention", "full_attention",
                 "linear_attention", "full_attention"]})",
       "\"linear_attention\" is not known");
}

TEST_CASE("windows follow the family where layer_types is absent") {
  const auto of = [](const std::string& keys) {
    return windows(read("{\"num_hidden_layers\": 8, " + keys + "}"));
  };
  CHECK(of(R"("model_type": "gemma2")") == "w.w.w.w.");
  CHECK(of(R"("model_type": "gpt_oss")") == "w.w.w.w.");
  CHECK(of(R"("model_type": "gemma3_text")") == "wwwww.ww");
  CHECK(of(R"("model_type": "gemma3_text", "sliding_window_pattern": 3)") ==
        "ww.ww.ww");
  CHECK(of(R"("model_type": "llama4_text")") == "www.www.");
  CHECK(of(R"("model_type": "llama4_text",
             "no_rope_layers": [1, 0, 1, 1, 1, 1, 1, 0])") == "w.wwwww.");
  CHECK(of(R"("model_type": "mistral")") == "wwwwwwww");
  CHECK(of(R"("model_type": "mistral", "sliding_window": null)") == "........");
  CHECK(of(R"("model_type": "qwen2", "max_window_layers": 5)") == "........");
  CHECK(of(R"("model_type": "qwen2", "max_window_layers": 5,
             "use_sliding_window": true)") == ".....www");
}

TEST_CASE("which layers have experts") {
  const auto of = [](const std::string& keys) {
    return experts(read("{\"num_hidden_layers\": 6, " + keys + "}"));
  };
  CHECK(of(R"("model_type": "qwen3_moe", "decoder_sparse_step": 2)") ==
        ".e.e.e");
  CHECK(of(R"("model_type": "qwen2_moe", "mlp_only_layers": [0, 3])") ==
        ".ee.ee");
  CHECK(of(R"("model_type": "deepseek_v3")") == "...eee");
  CHECK(of(R"("model_type": "deepseek_v3", "n_routed_experts": null)") ==
        "......");
  CHECK(of(R"("model_type": "deepseek_v2", "num_experts_per_tok": 6,
             "moe_layer_freq": 2, "first_k_dense_replace": 1)") == "..e.e.");
  CHECK(of(R"("model_type": "llama4_text",
             "interleave_moe_layer_step": 2)") == ".e.e.e");
  CHECK(of(R"("model_type": "llama4_text", "moe_layers": [0, 5])") == "e....e");
  says(R"({"model_type": "qwen3_moe", "decoder_sparse_step": 0})",
       "decoder_sparse_step: expected at least 1");
}

TEST_CASE("quantized checkpoints have the shapes they are trained with") {
  CHECK(parameters(read(R"({"model_type": "llama"})")) ==
        parameters(read(R"({"model_type": "llama",
            "quantization_config": {"quant_method": "awq", "bits": 4}})")));
}

TEST_CASE("multi-token prediction modules are not counted") {
  CHECK(parameters(read(R"({"model_type": "deepseek_v3"})")) ==
        parameters(read(R"({"model_type": "deepseek_v3",
                            "num_nextn_predict_layers": 3})")));
}

TEST_CASE("an unknown family is refused by name, with those known") {
  says(R"({"model_type": "mamba2"})", "model_type \"mamba2\" is not known");
  says(R"({"model_type": "mamba2"})", "known: bloom, deepseek_v2");
  says(R"({"model_type": "qwen4"})", "did you mean qwen2?");
  says(R"({"architectures": ["LlamaForCausalLM"]})",
       "key \"model_type\" is missing");
  says(R"({"model_type": "llava", "text_config": {"hidden_size": 64}})",
       "model_type \"llava\" is not known");
  says(R"({"model_type": "llama", "hidden_act": "mish"})",
       "activation \"mish\" is not known");
}

TEST_CASE("families with toy defaults want the sizes that matter") {
  says(R"({"model_type": "bloom"})", "gives no layers and no hidden size");
  says(R"({"model_type": "bloom"})", "give n_layer and n_embed");
  says(R"({"model_type": "deepseek_v2"})",
       "gives no layers and no hidden size");
  says(R"({"model_type": "deepseek_v2", "num_hidden_layers": 2})",
       "num_experts_per_tok is missing");
}

TEST_CASE("DeepSeek-V2 without vocab_size has the vocabulary of its class") {
  CHECK(read(R"({"model_type": "deepseek_v2", "num_hidden_layers": 2,
                 "num_experts_per_tok": 6})")
            .vocab == 102400);
}

// modeling_deepseek_v2.py: DeepseekV2MLP has biases, DeepseekV2Experts none.
TEST_CASE("DeepSeek-V2's mlp_bias is of dense and shared MLPs") {
  const auto count = [](const std::string& more) {
    return parameters(read(R"({"model_type": "deepseek_v2", "hidden_size": 512,
          "intermediate_size": 1000, "num_hidden_layers": 5,
          "num_attention_heads": 8, "vocab_size": 1024,
          "moe_intermediate_size": 96, "n_routed_experts": 16,
          "num_experts_per_tok": 2, "first_k_dense_replace": 2)" +
                           more + "}"));
  };
  const std::string biased = R"(, "mlp_bias": true)";
  const std::string shared = R"(, "n_shared_experts": 2)";
  const std::string none = R"(, "n_shared_experts": null)";
  const std::int64_t dense = 2L * (2 * 1000 + 512);
  const std::int64_t routed = 3L * (2 * 2 * 96 + 512);
  CHECK(count(shared + biased) - count(shared) == dense + routed);
  CHECK(count(none + biased) - count(none) == dense);
}

// modeling_qwen2_moe.py: shared_expert_gate is made whatever the width.
TEST_CASE("Qwen2-MoE gates shared experts of no width") {
  const auto count = [](int width) {
    return parameters(read(R"({"model_type": "qwen2_moe", "hidden_size": 512,
          "intermediate_size": 1000, "num_hidden_layers": 4,
          "num_attention_heads": 8, "num_key_value_heads": 8,
          "vocab_size": 1024, "moe_intermediate_size": 96, "num_experts": 8,
          "num_experts_per_tok": 2, "shared_expert_intermediate_size": )" +
                           std::to_string(width) + "}"));
  };
  CHECK(count(0) == count(64) - std::int64_t{4} * 3 * 512 * 64);
}

TEST_CASE("what differs within Falcon") {
  const auto falcon = [](const std::string& keys) {
    return read(R"({"model_type": "falcon", "num_hidden_layers": 1,
                    "hidden_size": 256, "num_attention_heads": 4)" +
                keys + "}");
  };
  CHECK(attention(falcon("")).kv_heads == 1);
  CHECK(attention(falcon(R"(, "multi_query": false)")).kv_heads == 4);
  // Old files say kv heads that the old architecture does not use.
  CHECK(attention(falcon(R"(, "num_kv_heads": 4)")).kv_heads == 1);
  const auto norms = [&](const std::string& keys) {
    return falcon(keys).layers.front().layer.norms;
  };
  CHECK(norms("") == 1);
  CHECK(norms(R"(, "parallel_attn": false)") == 2);
  CHECK(norms(R"(, "new_decoder_architecture": true)") == 2);
  CHECK(norms(R"(, "new_decoder_architecture": true,
                 "num_ln_in_parallel_attn": 1)") == 1);
  CHECK(falcon(R"(, "alibi": true)").positions == Positions::alibi);
}

TEST_CASE("Starcoder2 has biases everywhere unless told otherwise") {
  // bigcode/starcoder2-3b; counts of transformers 5.24 on the meta device.
  const std::string three_b = R"("model_type": "starcoder2",
      "hidden_size": 3072, "intermediate_size": 12288,
      "num_hidden_layers": 30, "num_attention_heads": 24,
      "num_key_value_heads": 2, "vocab_size": 49152, "use_bias": )";
  CHECK(parameters(read("{" + three_b + "true}")) == 3'030'371'328);
  CHECK(parameters(read("{" + three_b + "false}")) == 3'029'710'848);
}

TEST_CASE("T5 may be gated, untied, and of unequal stacks") {
  // google/t5-v1_1-small: 76,961,152 parameters.
  CHECK(parameters(read(R"({"model_type": "t5", "d_ff": 1024, "d_kv": 64,
      "d_model": 512, "num_heads": 6, "num_layers": 8,
      "num_decoder_layers": 8, "feed_forward_proj": "gated-gelu",
      "tie_word_embeddings": false, "vocab_size": 32128})")) == 76'961'152);
  const ModelSpec m = read(R"({"model_type": "t5", "num_layers": 2,
                               "num_decoder_layers": 5})");
  CHECK(m.encoder_layers == 2);
  CHECK(layer_count(m) == 7);
}

TEST_CASE("a long context is not the training sequence") {
  const ModelSpec m =
      read(R"({"model_type": "llama", "max_position_embeddings": 131072})");
  CHECK(m.sequence == 8192);
  CHECK(m.source.find("8192 of at most 131072") != std::string::npos);
  CHECK(read(R"({"model_type": "llama"})").sequence == 2048);
}

TEST_CASE("sizes that no model has are refused without overflow") {
  says(R"({"model_type": "gpt2", "n_embd": 99999996, "n_head": 1})",
       "hidden must be 1 to 1000000");
  says(R"({"model_type": "gpt2", "n_embd": 9223372036854775807})",
       "n_embd: expected a whole number");
  says(R"({"model_type": "llama", "num_hidden_layers": 100000000})",
       "expected 1 to 10000 layers");
  says(R"({"model_type": "deepseek_v3", "n_shared_experts": 100000000})",
       "shared experts of width 2048 are too wide");
  says(R"({"model_type": "llama", "num_hidden_layers": 0})",
       "expected 1 to 10000 layers");
}

TEST_CASE("a file's own name is kept") {
  CHECK(read(R"({"model_type": "gpt2", "_name_or_path": "mine"})").name ==
        "mine");
  CHECK(read(R"({"model_type": "gpt2", "_name_or_path": ""})").name ==
        "config.json");
}

TEST_CASE("known families are listed in order, once") {
  const std::vector<std::string> types = hf_model_types();
  CHECK(std::is_sorted(types.begin(), types.end()));
  CHECK(std::adjacent_find(types.begin(), types.end()) == types.end());
}
