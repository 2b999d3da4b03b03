// Names against the tables of transformers' modules; copying against a slow
// transposition by hand.
#include <doctest/doctest.h>

#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "exec/huggingface_weights.h"
#include "support/messages.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

using Floats = std::vector<float>;

/// 0, 1, 2, .. from `first` on.
Floats counting(int size, int first) {
  Floats numbers(static_cast<std::size_t>(size));
  std::iota(numbers.begin(), numbers.end(), static_cast<float>(first));
  return numbers;
}

TensorView view(const std::vector<std::int64_t>& shape, const Floats& data) {
  return {Precision::fp32, shape, std::as_bytes(std::span(data))};
}

Floats read(const HuggingFaceWeights& weights, const std::string& ours,
            const Block& block) {
  Floats out(static_cast<std::size_t>(block.size()));
  weights.read(ours, block, std::as_writable_bytes(std::span(out)));
  return out;
}

Floats read_all(const HuggingFaceWeights& weights, const std::string& ours) {
  const ParameterShape shape = weights.shape(ours);
  return read(weights, ours, {0, shape.rows, 0, shape.columns});
}

/// [rows, columns] -> [columns, rows].
Floats transposed(const Floats& data, std::size_t columns) {
  Floats turned;
  for (std::size_t column = 0; column < columns; ++column) {
    for (std::size_t i = column; i < data.size(); i += columns) {
      turned.push_back(data[i]);
    }
  }
  return turned;
}

}  // namespace

TEST_CASE("a parameter of ours has a name of theirs") {
  using enum WeightNames;
  struct Row {
    WeightNames names;
    std::string ours;
    TheirPart theirs;
  };
  const Row rows[] = {
      {gpt2, "embedding.weight", {"transformer.wte.weight"}},
      {gpt2, "positions.weight", {"transformer.wpe.weight"}},
      {gpt2, "head.weight", {"lm_head.weight"}},
      {gpt2, "final_norm.bias", {"transformer.ln_f.bias"}},
      {gpt2, "layers.11.norm1.weight", {"transformer.h.11.ln_1.weight"}},
      {gpt2, "layers.0.norm2.bias", {"transformer.h.0.ln_2.bias"}},
      {gpt2,
       "layers.3.attention.q.weight",
       {"transformer.h.3.attn.c_attn.weight", 0, 3, true}},
      {gpt2,
       "layers.3.attention.k.weight",
       {"transformer.h.3.attn.c_attn.weight", 1, 3, true}},
      {gpt2,
       "layers.3.attention.v.bias",
       {"transformer.h.3.attn.c_attn.bias", 2, 3, false}},
      {gpt2,
       "layers.3.attention.o.weight",
       {"transformer.h.3.attn.c_proj.weight", 0, 1, true}},
      {gpt2,
       "layers.3.mlp.up.weight",
       {"transformer.h.3.mlp.c_fc.weight", 0, 1, true}},
      {gpt2, "layers.3.mlp.down.bias", {"transformer.h.3.mlp.c_proj.bias"}},
      {llama, "embedding.weight", {"model.embed_tokens.weight"}},
      {llama, "final_norm.weight", {"model.norm.weight"}},
      {llama, "head.weight", {"lm_head.weight"}},
      {llama,
       "layers.2.norm1.weight",
       {"model.layers.2.input_layernorm.weight"}},
      {llama,
       "layers.2.norm2.weight",
       {"model.layers.2.post_attention_layernorm.weight"}},
      {llama,
       "layers.2.attention.q.bias",
       {"model.layers.2.self_attn.q_proj.bias"}},
      {llama,
       "layers.2.attention.o.weight",
       {"model.layers.2.self_attn.o_proj.weight"}},
      {llama,
       "layers.2.mlp.gate.weight",
       {"model.layers.2.mlp.gate_proj.weight"}},
      {mixtral,
       "layers.2.attention.k.weight",
       {"model.layers.2.self_attn.k_proj.weight"}},
      {mixtral,
       "layers.2.router.weight",
       {"model.layers.2.block_sparse_moe.gate.weight"}},
      {mixtral,
       "layers.2.experts.7.gate.weight",
       {"model.layers.2.block_sparse_moe.experts.7.w1.weight"}},
      {mixtral,
       "layers.2.experts.7.down.weight",
       {"model.layers.2.block_sparse_moe.experts.7.w2.weight"}},
      {mixtral,
       "layers.2.experts.7.up.weight",
       {"model.layers.2.block_sparse_moe.experts.7.w3.weight"}},
      {qwen2_moe, "layers.2.router.weight", {"model.layers.2.mlp.gate.weight"}},
      {qwen2_moe,
       "layers.2.experts.59.up.weight",
       {"model.layers.2.mlp.experts.59.up_proj.weight"}},
      {qwen2_moe,
       "layers.2.shared.gate.weight",
       {"model.layers.2.mlp.shared_expert.gate_proj.weight"}},
      {qwen2_moe,
       "layers.2.mlp.down.weight",
       {"model.layers.2.mlp.down_proj.weight"}}};
  for (const Row& row : rows) {
    CAPTURE(row.ours);
    CHECK(their_part(row.names, row.ours) == row.theirs);
  }
}

TEST_CASE("a parameter that a family has not is refused") {
  struct Row {
    WeightNames names;
    const char* ours;
  };
  for (const Row& row :
       {Row{WeightNames::llama, "positions.weight"},
        Row{WeightNames::llama, "layers.0.router.weight"},
        Row{WeightNames::mixtral, "layers.0.mlp.up.weight"},
        Row{WeightNames::gpt2, "layers.0.mlp.gate.weight"},
        Row{WeightNames::gpt2, "layers.x.norm1.weight"},
        Row{WeightNames::gpt2, "layers..norm1.weight"},
        Row{WeightNames::gpt2, "layers.0.norm1.scale"},
        Row{WeightNames::gpt2, "layers.#.norm1.weight"},
        Row{WeightNames::gpt2, "embedding"}, Row{WeightNames::gpt2, ""}}) {
    CAPTURE(row.ours);
    CHECK(refusal([&] { their_part(row.names, row.ours); }) ==
          "parameter \"" + std::string(row.ours) +
              "\" has no name in such a checkpoint");
  }
}

TEST_CASE("families are known by model_type") {
  CHECK(weight_names("gpt2") == WeightNames::gpt2);
  CHECK(weight_names("mistral") == WeightNames::llama);
  CHECK(weight_names("qwen2_moe") == WeightNames::qwen2_moe);
  CHECK_FALSE(weight_names("qwen3").has_value());  // q_norm and k_norm
}

TEST_CASE("GPT-2's fused and turned matrices are cut apart") {
  const TemporaryDirectory folder;
  const Floats fused = counting(4 * 12, 0);  // [inputs, 3 outputs]
  const Floats bias = counting(12, 100), norm = counting(4, 200);
  const std::string path = folder.file("model.safetensors");
  write_safetensors(path,
                    {{"h.0.attn.c_attn.weight", view({4, 12}, fused)},
                     {"h.0.attn.c_attn.bias", view({12}, bias)},
                     {"h.0.ln_1.weight", view({4}, norm)}},
                    {});  // saved without a head, so without a prefix
  const HuggingFaceWeights weights(TensorFiles::open(folder.path()),
                                   WeightNames::gpt2);
  const Floats outputs = transposed(fused, 12);  // [3 outputs, inputs]
  int piece = 0;
  for (const char* which : {"q", "k", "v"}) {
    const std::string name = std::string("layers.0.attention.") + which;
    CAPTURE(name);
    CHECK(weights.shape(name + ".weight") == ParameterShape{4, 4});
    CHECK(weights.shape(name + ".bias") == ParameterShape{1, 4});
    CHECK(read_all(weights, name + ".weight") ==
          Floats(outputs.begin() + 16L * piece,
                 outputs.begin() + 16L * (piece + 1)));
    CHECK(read_all(weights, name + ".bias") == counting(4, 100 + 4 * piece));
    ++piece;
  }
  // rows 1 and 2, columns 2 and 3, of k: outputs 5 and 6
  CHECK(read(weights, "layers.0.attention.k.weight", {1, 2, 2, 2}) ==
        Floats{29, 41, 30, 42});
  CHECK(read(weights, "layers.0.attention.k.bias", {0, 1, 1, 2}) ==
        Floats{105, 106});
  CHECK(weights.dtype("layers.0.norm1.weight") == Precision::fp32);
  CHECK(weights.has("layers.0.norm1.weight"));
  CHECK_FALSE(weights.has("head.weight"));
  CHECK(weights.left_over({"layers.0.attention.q.weight"}) ==
        std::vector<std::string>{"h.0.attn.c_attn.bias", "h.0.ln_1.weight"});
}

TEST_CASE("what is written under their names is read under ours") {
  const TemporaryDirectory folder;
  const Floats up = counting(6 * 4, 0), bias = counting(4, 50);
  const Floats q = counting(16, 100), k = counting(16, 200),
               v = counting(16, 300);
  const std::string path = folder.file("model.safetensors");
  write_huggingface(path, WeightNames::gpt2,
                    {{"layers.1.mlp.up.weight", view({6, 4}, up)},
                     {"layers.1.norm2.bias", view({4}, bias)},
                     {"layers.1.attention.q.weight", view({4, 4}, q)},
                     {"layers.1.attention.k.weight", view({4, 4}, k)},
                     {"layers.1.attention.v.weight", view({4, 4}, v)}});
  const TensorFiles files = TensorFiles::open(path);
  CHECK(files.tensors().size() == 3);
  CHECK(files.find("transformer.h.1.attn.c_attn.weight")->shape ==
        std::vector<std::int64_t>{4, 12});
  CHECK(files.find("transformer.h.1.mlp.c_fc.weight")->shape ==
        std::vector<std::int64_t>{4, 6});
  const HuggingFaceWeights weights(files, WeightNames::gpt2);
  CHECK(read_all(weights, "layers.1.mlp.up.weight") == up);
  CHECK(read_all(weights, "layers.1.norm2.bias") == bias);
  CHECK(read_all(weights, "layers.1.attention.q.weight") == q);
  CHECK(read_all(weights, "layers.1.attention.k.weight") == k);
  CHECK(read_all(weights, "layers.1.attention.v.weight") == v);
}

TEST_CASE("a piece that is missing is our fault") {
  const TemporaryDirectory folder;
  const Floats q = counting(16, 0);
  CHECK_THROWS_AS(
      write_huggingface(folder.file("a"), WeightNames::gpt2,
                        {{"layers.1.attention.q.weight", view({4, 4}, q)}}),
      Bug);
}

TEST_CASE("weights that are not there, or not to train, are named") {
  const TemporaryDirectory folder;
  const Floats data = counting(10, 0);
  const std::string path = folder.file("a.safetensors");
  write_safetensors(
      path,
      {{"transformer.wpe.weight", view({1, 2, 5}, data)},
       {"transformer.h.0.attn.c_attn.weight", view({1, 10}, data)}},
      {});
  const HuggingFaceWeights weights(TensorFiles::open(path), WeightNames::gpt2);
  CHECK(refusal([&] { weights.shape("embedding.weight"); }) ==
        "\"" + path + "\" holds no tensor \"transformer.wte.weight\"");
  for (const char* ours : {"positions.weight", "layers.0.attention.q.weight"}) {
    CAPTURE(ours);
    CHECK(refusal([&] { weights.shape(ours); })
              .ends_with("is not of F32, F16 or BF16, or not of a shape to "
                         "train"));
  }
}
