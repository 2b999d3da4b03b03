#include "exec/huggingface_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/quote.h"

namespace ztplan {
namespace {

/// A module of ours and its place in theirs; # stands for a number.
struct Module {
  std::string_view ours, theirs;
  int piece = 0, pieces = 1;
  bool transposed = false;  // its weight; a bias is a bias
};

/// Conv1D keeps [inputs, outputs], and c_attn all of q, k and v.
constexpr Module kGpt2[] = {
    {"embedding", "transformer.wte"},
    {"positions", "transformer.wpe"},
    {"layers.#.norm1", "transformer.h.#.ln_1"},
    {"layers.#.attention.q", "transformer.h.#.attn.c_attn", 0, 3, true},
    {"layers.#.attention.k", "transformer.h.#.attn.c_attn", 1, 3, true},
    {"layers.#.attention.v", "transformer.h.#.attn.c_attn", 2, 3, true},
    {"layers.#.attention.o", "transformer.h.#.attn.c_proj", 0, 1, true},
    {"layers.#.norm2", "transformer.h.#.ln_2"},
    {"layers.#.mlp.up", "transformer.h.#.mlp.c_fc", 0, 1, true},
    {"layers.#.mlp.down", "transformer.h.#.mlp.c_proj", 0, 1, true},
    {"final_norm", "transformer.ln_f"},
    {"head", "lm_head"}};

constexpr Module kAroundMlp[] = {
    {"embedding", "model.embed_tokens"},
    {"layers.#.norm1", "model.layers.#.input_layernorm"},
    {"layers.#.attention.q", "model.layers.#.self_attn.q_proj"},
    {"layers.#.attention.k", "model.layers.#.self_attn.k_proj"},
    {"layers.#.attention.v", "model.layers.#.self_attn.v_proj"},
    {"layers.#.attention.o", "model.layers.#.self_attn.o_proj"},
    {"layers.#.norm2", "model.layers.#.post_attention_layernorm"},
    {"final_norm", "model.norm"},
    {"head", "lm_head"}};

constexpr Module kDenseMlp[] = {
    {"layers.#.mlp.gate", "model.layers.#.mlp.gate_proj"},
    {"layers.#.mlp.up", "model.layers.#.mlp.up_proj"},
    {"layers.#.mlp.down", "model.layers.#.mlp.down_proj"}};

constexpr Module kMixtralMlp[] = {
    {"layers.#.router", "model.layers.#.block_sparse_moe.gate"},
    {"layers.#.experts.#.gate", "model.layers.#.block_sparse_moe.experts.#.w1"},
    {"layers.#.experts.#.up", "model.layers.#.block_sparse_moe.experts.#.w3"},
    {"layers.#.experts.#.down",
     "model.layers.#.block_sparse_moe.experts.#.w2"}};

constexpr Module kQwen2MoeMlp[] = {
    {"layers.#.router", "model.layers.#.mlp.gate"},
    {"layers.#.experts.#.gate", "model.layers.#.mlp.experts.#.gate_proj"},
    {"layers.#.experts.#.up", "model.layers.#.mlp.experts.#.up_proj"},
    {"layers.#.experts.#.down", "model.layers.#.mlp.experts.#.down_proj"},
    {"layers.#.shared.gate", "model.layers.#.mlp.shared_expert.gate_proj"},
    {"layers.#.shared.up", "model.layers.#.mlp.shared_expert.up_proj"},
    {"layers.#.shared.down", "model.layers.#.mlp.shared_expert.down_proj"}};

std::vector<std::span<const Module>> tables_of(WeightNames names) {
  switch (names) {
    case WeightNames::gpt2:
      return {kGpt2};
    case WeightNames::llama:
      return {kAroundMlp, kDenseMlp};
    case WeightNames::mixtral:
      return {kAroundMlp, kMixtralMlp};
    case WeightNames::qwen2_moe:  // some of its layers are dense
      return {kAroundMlp, kDenseMlp, kQwen2MoeMlp};
  }
  throw Bug("a family has its names");
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

/// `name` with # for each number between dots, and the numbers.
std::pair<std::string, std::vector<std::string>> split(std::string_view name) {
  std::pair<std::string, std::vector<std::string>> found;
  while (!name.empty()) {
    const std::size_t size = std::min(name.find('.'), name.size());
    const std::string_view word = name.substr(0, size);
    const bool number = !word.empty() && std::ranges::all_of(word, is_digit);
    if (number) found.second.emplace_back(word);
    found.first += number ? "#" : word;
    if (size < name.size()) found.first += '.';
    name.remove_prefix(std::min(size + 1, name.size()));
  }
  return found;
}

std::string with_numbers(std::string_view pattern,
                         const std::vector<std::string>& numbers) {
  std::string name;
  auto number = numbers.begin();
  for (const char letter : pattern) {
    if (letter == '#') {
      name += *number++;
    } else {
      name += letter;
    }
  }
  return name;
}

std::optional<Module> find(WeightNames names, std::string_view pattern) {
  for (const std::span<const Module> table : tables_of(names)) {
    const auto found = std::ranges::find(table, pattern, &Module::ours);
    if (found != table.end()) return *found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<WeightNames> weight_names(std::string_view model_type) {
  constexpr std::pair<std::string_view, WeightNames> kFamilies[] = {
      {"gpt2", WeightNames::gpt2},       {"llama", WeightNames::llama},
      {"mistral", WeightNames::llama},   {"qwen2", WeightNames::llama},
      {"mixtral", WeightNames::mixtral}, {"qwen2_moe", WeightNames::qwen2_moe}};
  for (const auto& [family, names] : kFamilies) {
    if (family == model_type) return names;
  }
  return std::nullopt;
}

TheirPart their_part(WeightNames names, std::string_view ours) {
  const std::size_t dot = std::min(ours.rfind('.'), ours.size());
  const std::string_view kind = ours.substr(dot);
  const auto [pattern, numbers] = split(ours.substr(0, dot));
  const std::optional<Module> module =
      ours.find('#') == ours.npos ? find(names, pattern) : std::nullopt;
  if (!module || (kind != ".weight" && kind != ".bias")) {
    throw Error(fmt::format("parameter {} has no name in such a checkpoint",
                            quote(ours)),
                "read the weights of a model of the same family");
  }
  return {.name = with_numbers(module->theirs, numbers) + std::string(kind),
          .piece = module->piece,
          .pieces = module->pieces,
          .transposed = module->transposed && kind == ".weight"};
}

}  // namespace ztplan
