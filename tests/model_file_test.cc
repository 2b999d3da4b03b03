// Model files: every key is known, typed and bounded, and a compact pattern
// stands for its layers.
#include "spec/model_file.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"

using namespace ztplan;

namespace {

const std::string kHead =
    R"("name": "m", "source": "a test", "hidden": 64, "vocab": 100,
       "sequence": 32, "norm": "rms", "positions": "rotary", "tied": false)";
const std::string kAttention = R"("attention": {"heads": 4, "head_size": 16})";
const std::string kFfn = R"("ffn": {"width": 256, "activation": "silu"})";

std::string group(const std::string& count) {
  return "{\"count\": " + count + ", " + kAttention + ", " + kFfn + "}";
}

std::string file(const std::string& layers, const std::string& more) {
  return "{" + kHead + more + ", \"layers\": " + layers + "}";
}

std::string complaint(const std::string& text) {
  try {
    parse_model_file(text, "m.json");
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "";
}

void says(const std::string& text, const std::string& part) {
  const std::string said = complaint(text);
  INFO(text, " said: ", said);
  CHECK(said.find(part) != std::string::npos);
}

/// One letter a layer: w has a window, . sees all.
std::string windows(const std::string& attention, const std::string& count) {
  const ModelSpec model =
      parse_model_file(file("[{\"count\": " + count +
                                ", \"attention\": {\"heads\": 4, "
                                "\"head_size\": 16" +
                                attention + "}, " + kFfn + "}]",
                            ""),
                       "m.json");
  std::string text;
  for (const LayerGroup& g : model.layers)
    text.append(static_cast<std::size_t>(g.count),
                g.layer.attention.window > 0 ? 'w' : '.');
  return text;
}

}  // namespace

TEST_CASE("a small model, by hand") {
  const ModelSpec m = parse_model_file(file("[" + group("3") + "]", ""), "m");
  CHECK(m.name == "m");
  CHECK(layer_count(m) == 3);
  CHECK(m.layers[0].layer.attention.kv_heads == 4);
  CHECK(m.layers[0].layer.norms == 2);
  // Embedding and head, final norm, layers of 4 h^2 + 2 h f + 2 norms.
  CHECK(parameters(m) ==
        2 * 100 * 64 + 64 + 3 * (4 * 64 * 64 + 2 * 64 * 256 + 2 * 64));
}

TEST_CASE("every key reaches its field") {
  const ModelSpec m = parse_model_file(
      R"({"name": "m", "aliases": ["a", "b"], "hub_id": "o/m", "source": "s",
          "hidden": 64, "vocab": 100, "sequence": 32, "norm": "layer",
          "norm_weight": false, "norm_bias": false, "final_norm": false,
          "embedding_norm": true, "positions": "relative",
          "relative_buckets": 8, "embedding_size": 32, "encoder_layers": 1,
          "tied": true, "head_bias": true, "global_batch": 7,
          "published_parameters": 10, "published_active_parameters": 9,
          "layers": [{"count": 2, "norms": 3,
            "attention": {"heads": 4, "head_size": 16, "kv_heads": 2,
              "qkv_bias": true, "output_bias": true, "qk_norm": "full",
              "sinks": true, "causal": false, "cross": true, "window": 5},
            "ffn": {"gated": true, "bias": true, "activation": "relu",
              "experts": 8, "top_k": 2, "expert_width": 24, "width": 1,
              "shared_width": 12, "shared_bias": true,
              "shared_gate": true,
              "router_bias": true}}]})",
      "m");
  CHECK(m.aliases == std::vector<std::string>{"a", "b"});
  CHECK(m.hub_id == "o/m");
  CHECK(m.source == "s");
  CHECK(m.norm == Norm::layer);
  CHECK_FALSE(m.norm_weight);
  CHECK_FALSE(m.norm_bias);
  CHECK_FALSE(m.final_norm);
  CHECK(m.embedding_norm);
  CHECK(m.positions == Positions::relative);
  CHECK(m.relative_buckets == 8);
  CHECK(m.embedding_size == 32);
  CHECK(m.encoder_layers == 1);
  CHECK(m.tied);
  CHECK(m.head_bias);
  CHECK(m.global_batch == 7);
  CHECK(m.published_parameters == 10);
  CHECK(m.published_active_parameters == 9);
  const Layer layer = {.attention = {.heads = 4,
                                     .kv_heads = 2,
                                     .head_size = 16,
                                     .qkv_bias = true,
                                     .output_bias = true,
                                     .qk_norm = QkNorm::full,
                                     .sinks = true,
                                     .causal = false,
                                     .cross = true,
                                     .window = 5},
                       .ffn = {.width = 1,
                               .gated = true,
                               .bias = true,
                               .activation = Activation::relu,
                               .experts = 8,
                               .top_k = 2,
                               .expert_width = 24,
                               .shared_width = 12,
                               .shared_bias = true,
                               .shared_gate = true,
                               .router_bias = true},
                       .norms = 3};
  CHECK(m.layers == std::vector<LayerGroup>{{2, layer}});
}

TEST_CASE("a latent head is as long as its parts") {
  const std::string latent =
      R"([{"count": 1, "attention": {"heads": 4, "latent": {"kv_rank": 8,
           "nope_size": 6, "rope_size": 2, "value_size": 5}}, )" +
      kFfn + "}]";
  const ModelSpec m = parse_model_file(file(latent, ""), "m");
  CHECK(m.layers[0].layer.attention.latent == Latent{0, 8, 6, 2, 5});
  CHECK(m.layers[0].layer.attention.head_size == 8);
  CHECK(m.layers[0].layer.attention.kv_heads == 4);
}

TEST_CASE("each n-th layer sees all") {
  CHECK(windows(R"(, "window": 8)", "3") == "www");
  CHECK(windows(R"(, "window": 8, "full_every": 2)", "6") == "w.w.w.");
  CHECK(windows(R"(, "window": 8, "full_every": 6)", "14") == "wwwww.wwwww.ww");
  CHECK(windows(R"(, "window": 8, "full_every": 1)", "2") == "..");
  CHECK(windows(R"(, "window": 8, "full_every": 9)", "3") == "www");
}

TEST_CASE("groups take turns in a pattern") {
  const std::string wide =
      R"({"count": 2, "attention": {"heads": 4, "head_size": 16},
          "ffn": {"width": 512, "activation": "silu"}})";
  const ModelSpec m =
      parse_model_file(file("[{\"repeat\": 3, \"pattern\": [" + group("1") +
                                ", " + wide + "]}, " + group("1") + "]",
                            ""),
                       "m");
  REQUIRE(m.layers.size() == 7);
  CHECK(layer_count(m) == 10);
  CHECK(m.layers[0].layer.ffn.width == 256);
  CHECK(m.layers[1].count == 2);
  CHECK(m.layers[5].layer.ffn.width == 512);
  CHECK(m.layers[6].layer.ffn.width == 256);
}

TEST_CASE("what is missing, unknown, mistyped or out of range is named") {
  const std::string good = "[" + group("1") + "]";
  CHECK(complaint(file(good, "")) == "");
  says("{}", "m.json: key \"name\" is missing");
  says("[]", "expected an object");
  says("{" + kHead + "}", "key \"layers\" is missing");
  says(file(good, R"(, "vocabulary": 3)"), "unknown key \"vocabulary\"");
  says(file(good, R"(, "global_bach": 3)"), "did you mean \"global_batch\"?");
  says(file(good, R"(, "head_bias": 1)"), "head_bias: expected true or false");
  says(file(good, R"(, "global_batch": 1.5)"),
       "global_batch: expected a whole number");
  says(file(good, R"(, "global_batch": -1)"),
       "global_batch: expected a whole number");
  says(file(good, R"(, "published_parameters": 0)"),
       "published_parameters: expected a count of at least 1");
  says(file(good, R"(, "aliases": "a")"), "aliases: expected an array");
  says(file(good, R"(, "aliases": [3])"), "aliases[0]: expected a string");
  says(file(good, R"(, "position_rows": 4)"), "position_rows must be 0");
  says(file("[]", ""), "it has no layers");
  says(file("{}", ""), "layers");
  says(file("[3]", ""), "layers[0]: expected an object");
  says(file("[" + group("0") + "]", ""),
       "layers[0].count: expected a whole number from 1 to 10000");
  says(file(good + "]", ""), "not JSON");
}

TEST_CASE("mistakes within a layer are named by their path") {
  const auto attention = [](const std::string& more) {
    return file(
        "[{\"count\": 1, \"attention\": {\"heads\": 4, \"head_size\": "
        "16" +
            more + "}, " + kFfn + "}]",
        "");
  };
  says(attention(R"(, "kv_head": 2)"),
       "layers[0].attention: unknown key \"kv_head\"");
  says(attention(R"(, "kv_heads": 3)"), "kv_heads must divide 4 heads, not 3");
  says(attention(R"(, "qk_norm": "rms")"),
       "layers[0].attention.qk_norm: expected one of none, head, full");
  says(attention(R"(, "full_every": 2)"),
       "layers[0].attention.full_every: needs a window");
  says(attention(R"(, "window": 4, "full_every": 0)"),
       "full_every: expected a whole number from 1 to");
  says(attention(R"(, "latent": {"kv_rank": 8, "nope_size": 6, "rope_size": 2,
                                 "value_size": 5})"),
       "head_size: nope_size + rope_size say this already");
  const auto ffn = [](const std::string& keys) {
    return file("[{\"count\": 1, " + kAttention + ", \"ffn\": {" + keys + "}}]",
                "");
  };
  says(ffn(R"("width": 4)"), "layers[0].ffn: key \"activation\" is missing");
  says(ffn(R"("width": 4, "activation": "swiglu")"),
       "layers[0].ffn.activation: expected one of gelu, relu, silu");
  says(ffn(R"("activation": "silu")"), "ffn.width must be 1 to");
  says(ffn(R"("activation": "silu", "experts": 4, "top_k": 5,
              "expert_width": 8)"),
       "ffn.top_k must be 1 to 4, not 5");
}

TEST_CASE("layers cannot be multiplied without end") {
  says(file(R"([{"repeat": 10001, "pattern": [)" + group("1") + "]}]", ""),
       "repeat: expected a whole number from 1 to 10000");
  says(file("[" + group("10000") + "," + group("1") + "]", ""),
       "must be 1 to 10000, not 10001");
  std::string two = group("1") + R"(, {"count": 1, "norms": 1, )" + kAttention +
                    ", " + kFfn + "}";
  says(file(R"([{"repeat": 10000, "pattern": [)" + two + "]}]", ""),
       "repeats to more than 10000 groups");
}
