// Exact parameter counts of hand-built models against published integers, their
// parts, and what validate() refuses.
#include "spec/model.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "base/error.h"

using namespace ztplan;

namespace {

/// GPT-3 175B, arXiv 2005.14165, table 2.1.
ModelSpec gpt3() {
  ModelSpec m;
  m.name = "gpt3";
  m.hidden = 12288;
  m.vocab = 50257;
  m.sequence = 2048;
  m.position_rows = 2048;
  m.tied = true;
  Layer layer;
  layer.attention = {.heads = 96,
                     .kv_heads = 96,
                     .head_size = 128,
                     .qkv_bias = true,
                     .output_bias = true};
  layer.ffn = {.width = 4 * 12288, .bias = true};
  m.layers = {{96, layer}};
  return m;
}

/// gpt-oss-20b: hub config openai/gpt-oss-20b.
ModelSpec gpt_oss() {
  ModelSpec m;
  m.name = "gpt-oss";
  m.hidden = 2880;
  m.vocab = 201088;
  m.sequence = 4096;
  m.norm = Norm::rms;
  m.positions = Positions::rotary;
  Layer layer;
  layer.attention = {.heads = 64,
                     .kv_heads = 8,
                     .head_size = 64,
                     .qkv_bias = true,
                     .output_bias = true,
                     .sinks = true};
  layer.ffn = {.gated = true,
               .bias = true,
               .experts = 32,
               .top_k = 4,
               .expert_width = 2880,
               .router_bias = true};
  m.layers = {{24, layer}};
  return m;
}

/// DeepSeek-V3, arXiv 2412.19437: three dense layers, then experts.
ModelSpec deepseek_v3() {
  ModelSpec m;
  m.name = "deepseek-v3";
  m.hidden = 7168;
  m.vocab = 129280;
  m.sequence = 4096;
  m.norm = Norm::rms;
  m.positions = Positions::rotary;
  Layer dense;
  dense.attention = {.heads = 128,
                     .kv_heads = 128,
                     .head_size = 192,
                     .latent = {1536, 512, 128, 64, 128}};
  dense.ffn = {.width = 18432, .gated = true};
  Layer sparse = dense;
  sparse.ffn = {.gated = true,
                .experts = 256,
                .top_k = 8,
                .expert_width = 2048,
                .shared_width = 2048};
  m.layers = {{3, dense}, {58, sparse}};
  return m;
}

/// T5-small: six encoder and six decoder layers, arXiv 1910.10683.
ModelSpec t5_small() {
  ModelSpec m;
  m.name = "t5-small";
  m.hidden = 512;
  m.vocab = 32128;
  m.sequence = 512;
  m.norm = Norm::rms;
  m.positions = Positions::relative;
  m.relative_buckets = 32;
  m.encoder_layers = 6;
  m.tied = true;
  Layer encoder;
  encoder.attention = {
      .heads = 8, .kv_heads = 8, .head_size = 64, .causal = false};
  encoder.ffn = {.width = 2048};
  Layer decoder = encoder;
  decoder.attention.causal = true;
  decoder.attention.cross = true;
  decoder.norms = 3;
  m.layers = {{6, encoder}, {6, decoder}};
  return m;
}

/// OPT-350m: 512-wide embeddings, post-norm without a final norm.
ModelSpec opt_350m() {
  ModelSpec m = gpt3();
  m.name = "opt-350m";
  m.hidden = 1024;
  m.vocab = 50272;
  m.position_rows = 2050;
  m.embedding_size = 512;
  m.final_norm = false;
  m.layers[0].count = 24;
  m.layers[0].layer.attention.heads = 16;
  m.layers[0].layer.attention.kv_heads = 16;
  m.layers[0].layer.attention.head_size = 64;
  m.layers[0].layer.ffn.width = 4096;
  return m;
}

std::string complaint(const ModelSpec& model) {
  try {
    validate(model);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("counts equal the published integers") {
  // gpt-oss: OpenAI model card, tables 1 and 2, plus the input embedding.
  CHECK(parameters(gpt3()) == 174'604'259'328);
  CHECK(parameters(gpt_oss()) == 20'914'757'184);
  CHECK(active_parameters(gpt_oss()) == 4'187'440'704);
  CHECK(parameters(deepseek_v3()) == 671'026'404'352);
  CHECK(active_parameters(deepseek_v3()) == 37'552'282'624);
  CHECK(parameters(t5_small()) == 60'506'624);
  CHECK(parameters(opt_350m()) == 331'196'416);
}

TEST_CASE("a GPT layer is 12 h^2 + 13 h, in its parts") {
  const ModelSpec m = gpt3();
  const std::int64_t h = m.hidden;
  const LayerParameters p = layer_parameters(m, m.layers[0].layer);
  CHECK(p.total() == 12 * h * h + 13 * h);
  CHECK(p.attention == 2 * h * h + h);    // query with bias, output
  CHECK(p.key_value == 2 * (h * h + h));  // both biased
  CHECK(p.mlp == 8 * h * h + 4 * h);      // bias of the first matrix
  CHECK(p.replicated == 4 * h + 2 * h);   // two norms, two row biases
  CHECK(p.experts == 0);
}

TEST_CASE("latent attention has no key and value projections to cut") {
  const ModelSpec m = deepseek_v3();
  const LayerParameters p = layer_parameters(m, m.layers[1].layer);
  CHECK(p.key_value == 0);
  CHECK(p.attention ==
        1536L * 128 * 192 + 512L * 128 * 256 + 128L * 128 * 7168);
  CHECK(p.experts == 256L * 3 * 7168 * 2048);
  CHECK(p.mlp == 3L * 7168 * 2048);
  CHECK(p.replicated ==
        7168L * (1536 + 512 + 64) + 1536 + 512 + 256L * 7168 + 2L * 7168);
}

TEST_CASE("queries at full rank need no latent") {
  ModelSpec m = deepseek_v3();
  m.layers[0].layer.attention.latent.q_rank = 0;
  const LayerParameters p = layer_parameters(m, m.layers[0].layer);
  CHECK(p.attention ==
        7168L * 128 * 192 + 512L * 128 * 256 + 128L * 128 * 7168);
  CHECK(p.replicated == 7168L * (512 + 64) + 512 + 2L * 7168);
}

TEST_CASE("norms are counted as their kind has it") {
  ModelSpec m = gpt3();
  const std::int64_t h = m.hidden;
  CHECK(final_norm_parameters(m) == 2 * h);
  m.norm_bias = false;
  CHECK(final_norm_parameters(m) == h);
  m.norm_weight = false;
  CHECK(final_norm_parameters(m) == 0);
  m = gpt_oss();
  CHECK(final_norm_parameters(m) == 2880);
  CHECK(final_norm_parameters(t5_small()) == 2 * 512);
}

TEST_CASE("an untied head is a matrix of its own, a biased one a vector more") {
  ModelSpec m = gpt3();
  const std::int64_t tied = parameters(m);
  m.tied = false;
  CHECK(parameters(m) == tied + 50257L * 12288);
  m.head_bias = true;
  CHECK(parameters(m) == tied + 50257L * 12288 + 50257);
}

TEST_CASE("both relative tables are found in one group of layers") {
  ModelSpec m = t5_small();
  const std::int64_t two_groups = embedding_extra_parameters(m);
  CHECK(two_groups == 2 * 32 * 8);
  m.layers = {{12, m.layers[0].layer}};
  CHECK(embedding_extra_parameters(m) == two_groups);
}

TEST_CASE("kinds of layers, in order of first use") {
  ModelSpec m = deepseek_v3();
  m.layers = {m.layers[0], m.layers[1], {2, m.layers[0].layer}};
  const LayerKinds kinds = layer_kinds(m);
  CHECK(kinds.kinds.size() == 2);
  REQUIRE(kinds.kind_of_layer.size() == 63);
  CHECK(kinds.kind_of_layer[2] == 0);
  CHECK(kinds.kind_of_layer[3] == 1);
  CHECK(kinds.kind_of_layer[62] == 0);
}

TEST_CASE("equal layers in a row are one group") {
  ModelSpec m = deepseek_v3();
  const Layer dense = m.layers[0].layer, sparse = m.layers[1].layer;
  m.layers.clear();
  append_layers(m, 2, dense);
  append_layers(m, 0, sparse);
  append_layers(m, 1, dense);
  append_layers(m, 58, sparse);
  CHECK(m.layers == deepseek_v3().layers);
}

TEST_CASE("published models pass") {
  for (const ModelSpec& m :
       {gpt3(), gpt_oss(), deepseek_v3(), t5_small(), opt_350m()})
    CHECK(complaint(m) == "");
}

TEST_CASE("what cannot be a model is refused by field") {
  struct Row {
    std::function<void(ModelSpec&)> spoil;
    const char* names;
  };
  const auto attention = [](ModelSpec& m) -> Attention& {
    return m.layers[0].layer.attention;
  };
  const auto ffn = [](ModelSpec& m) -> FeedForward& {
    return m.layers[0].layer.ffn;
  };
  const Row rows[] = {
      {[](auto& m) { m.hidden = 0; }, "hidden must be 1 to 1000000, not 0"},
      {[](auto& m) { m.hidden = 2'000'000'000; }, "hidden must be"},
      {[](auto& m) { m.vocab = -1; }, "vocab must be"},
      {[](auto& m) { m.sequence = 0; }, "sequence must be"},
      {[](auto& m) { m.position_rows = 2047; },
       "position_rows must be 2048 to 100000000, not 2047"},
      {[](auto& m) { m.positions = Positions::rotary; },
       "position_rows must be 0, not 2048"},
      {[](auto& m) { m.positions = Positions::relative, m.position_rows = 0; },
       "relative_buckets must be"},
      {[](auto& m) { m.relative_buckets = 3; }, "relative_buckets must be 0"},
      {[](auto& m) { m.embedding_size = -1; }, "embedding_size must be"},
      {[](auto& m) { m.global_batch = -1; }, "global_batch must be"},
      {[](auto& m) { m.encoder_layers = 96; },
       "encoder_layers must be 0 to 95"},
      {[](auto& m) { m.layers.clear(); }, "no layers"},
      {[](auto& m) { m.layers[0].count = 0; }, "layers[0].count must be"},
      {[](auto& m) {
         m.layers.push_back({9905, m.layers[0].layer});
       },
       "layers must be 1 to 10000 together, not 10001"},
      {[](auto& m) { m.layers[0].layer.norms = 5; }, "norms must be 0 to 4"},
      {[&](auto& m) { attention(m).heads = 0; }, "attention.heads must be"},
      {[&](auto& m) { attention(m).kv_heads = 97; },
       "kv_heads must be 1 to 96, not 97"},
      {[&](auto& m) { attention(m).kv_heads = 36; },
       "kv_heads must divide 96 heads, not 36"},
      {[&](auto& m) { attention(m).head_size = 0; }, "head_size must be"},
      {[&](auto& m) {
         attention(m).head_size = 65536, attention(m).heads = 960,
         attention(m).kv_heads = 1;
       },
       "heads * head_size must be at most 10000000"},
      {[&](auto& m) { attention(m).window = -1; }, "window must be"},
      {[&](auto& m) { attention(m).latent.q_rank = 8; },
       "latent.kv_rank must be"},
      {[&](auto& m) {
         attention(m).latent = {0, 8, 64, 65, 128};
       },
       "attention.head_size must be 129, not 128"},
      {[&](auto& m) { ffn(m).width = 0; }, "ffn.width must be"},
      {[&](auto& m) { ffn(m).top_k = 2; }, "ffn.top_k must be 0, not 2"},
      {[&](auto& m) { ffn(m).experts = -8; }, "ffn.experts must be"},
      {[&](auto& m) { ffn(m).experts = 8, ffn(m).expert_width = 64; },
       "ffn.top_k must be 1 to 8, not 0"},
      {[&](auto& m) { ffn(m).experts = 8, ffn(m).top_k = 9; },
       "ffn.top_k must be 1 to 8, not 9"},
      {[&](auto& m) { ffn(m).experts = 8, ffn(m).top_k = 2; },
       "ffn.expert_width must be"},
      {[&](auto& m) { ffn(m).shared_gate = true; }, "shared_gate must be 0"},
      {[&](auto& m) { ffn(m).shared_bias = true; }, "shared_bias must be 0"},
      {[&](auto& m) {
         m.hidden = 1'000'000;
         ffn(m) = {.experts = 65536, .top_k = 1, .expert_width = 10'000'000};
       },
       "parameters are more than 1e+15"},
      {[](auto& m) {
         m.sequence = m.position_rows = 100'000'000,
         m.layers[0].layer.attention.heads = 960;
       },
       "too long for 960 heads"},
  };
  for (const Row& row : rows) {
    ModelSpec m = gpt3();
    row.spoil(m);
    const std::string said = complaint(m);
    INFO("said: ", said);
    CHECK(said.find(row.names) != std::string::npos);
    CHECK(said.find("model \"gpt3\": ") == 0);
  }
}
