#include "interop/run_model.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "interop/run_cells.h"

namespace ztplan {
namespace {

// Far past any model that was trained, and small enough for every product.
constexpr int kMostLayers = 10'000;
constexpr int kMostSize = 1'000'000;
constexpr int kMostVocab = 10'000'000;
constexpr int kMostSequence = 4 * 1024 * 1024;
constexpr int kGptVocab = 50257;  // of GPT-2's tokenizer, where none is given

// Letters, digits and points of a name in lower case: "llama3.170b".
std::string essence(std::string_view name) {
  std::string out;
  for (const char c : folded(name)) {
    const bool kept =
        (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.';
    if (kept) out += c;
  }
  return out;
}

bool is_called(const ModelSpec& model, const std::string& name) {
  if (essence(model.name) == name) return true;
  return std::ranges::any_of(model.aliases, [&](const std::string& alias) {
    return essence(alias) == name;
  });
}

struct Shape {
  std::optional<int> layers, hidden, heads, kv_heads, ffn, vocab, sequence;
};

Shape shape_of(const CsvRow& row) {
  return {whole_cell(row, "layers", kMostLayers),
          whole_cell(row, "hidden", kMostSize),
          whole_cell(row, "heads", kMostSize),
          whole_cell(row, "kv_heads", kMostSize),
          whole_cell(row, "ffn", kMostSize),
          whole_cell(row, "vocab", kMostVocab),
          whole_cell(row, "seq", kMostSequence)};
}

bool agrees(const ModelSpec& model, const Shape& shape) {
  return shape.layers.value_or(layer_count(model)) == layer_count(model) &&
         shape.hidden.value_or(model.hidden) == model.hidden;
}

constexpr std::array<std::string_view, 12> kGatedFamilies = {
    "llama",    "qwen",     "mistral", "mixtral", "internlm",  "yi",
    "baichuan", "deepseek", "chatglm", "smollm",  "tinyllama", "codellama"};

bool is_gated(const CsvRow& row, const std::string& name) {
  if (notes_say(row, "swiglu")) return true;
  return std::ranges::any_of(kGatedFamilies, [&](std::string_view family) {
    return name.starts_with(family);
  });
}

Attention attention_of(const Shape& shape, bool biased) {
  Attention attention;
  attention.heads = *shape.heads;
  attention.kv_heads = shape.kv_heads.value_or(*shape.heads);
  if (attention.kv_heads == 0 || attention.heads == 0) {
    throw Skip("heads are not stated");
  }
  attention.head_size = *shape.hidden / attention.heads;
  attention.qkv_bias = biased;
  attention.output_bias = biased;
  return attention;
}

// Experts as Megatron-LM's configurations in the notes list them.
void add_experts(const CsvRow& row, FeedForward& ffn) {
  const auto experts = noted_number(row, "experts ");
  if (!experts) return;
  if (notes_say(row, "multi-latent-attention") || notes_say(row, "mtp 1")) {
    throw Skip("the shape of its latent attention or extra head is not stated");
  }
  ffn.experts = *experts;
  ffn.top_k = noted_number(row, "top-").value_or(1);
  ffn.expert_width = noted_number(row, "moe-ffn ").value_or(ffn.width);
  ffn.shared_width = noted_number(row, "shared ").value_or(0);
}

// A learned table grows with the sequence a run was set up for.
ModelSpec with_positions(ModelSpec model, int sequence) {
  if (model.positions == Positions::learned) {
    model.position_rows = std::max(model.position_rows, sequence);
  }
  return model;
}

ModelSpec model_of_shape(const CsvRow& row, const std::string& name,
                         const Shape& shape) {
  const bool gated = is_gated(row, name);
  const bool biased = !gated && !notes_say(row, "disable-bias-linear");
  FeedForward ffn;
  ffn.width = shape.ffn.value_or(4 * *shape.hidden);
  ffn.gated = gated;
  ffn.bias = biased;
  ffn.activation = gated ? Activation::silu : Activation::gelu;
  add_experts(row, ffn);

  ModelSpec model;
  model.name = std::string(model_name(row.get("model")));
  model.hidden = *shape.hidden;
  model.vocab = shape.vocab.value_or(kGptVocab);
  model.sequence = shape.sequence.value_or(0);
  model.norm = gated ? Norm::rms : Norm::layer;
  model.positions = gated ? Positions::rotary : Positions::learned;
  model.position_rows = gated ? 0 : model.sequence;
  model.tied = !gated && !notes_say(row, "untie-embeddings");
  model.layers = {{*shape.layers, {attention_of(shape, biased), ffn, 2}}};
  model.source = "the row's shape";
  return model;
}

}  // namespace

std::string_view model_name(std::string_view cell) {
  std::string_view name = cell.substr(0, cell.find('('));
  while (name.ends_with(' ')) name.remove_suffix(1);
  return name;
}

std::string_view model_remark(std::string_view cell) {
  const std::size_t open = cell.find('(');
  return open == std::string_view::npos ? "" : cell.substr(open);
}

ModelSpec model_of_run(const CsvRow& row, const std::vector<ModelSpec>& known) {
  const std::string name = essence(model_name(row.get("model")));
  const Shape shape = shape_of(row);
  for (const ModelSpec& model : known) {
    if (!is_called(model, name) || !agrees(model, shape)) continue;
    return with_positions(model, shape.sequence.value_or(0));
  }
  if (notes_say(row, "hybrid") || notes_say(row, "mamba") ||
      name.starts_with("nemotron3") || name.starts_with("nemotronv3")) {
    throw Skip("not a plain transformer");
  }
  const bool routed = notes_say(row, "moe") && !notes_say(row, "moe-ffn");
  if (routed) throw Skip("its experts are not stated");
  if (name.starts_with("t5") || name.starts_with("bert")) {
    throw Skip("encoder models are not described by these columns");
  }
  if (!shape.layers || !shape.hidden || !shape.heads || *shape.layers == 0 ||
      *shape.hidden == 0 || *shape.heads == 0) {
    throw Skip("the model's shape is not stated");
  }
  ModelSpec model = model_of_shape(row, name, shape);
  try {
    validate(model);
  } catch (const Error&) {
    throw Skip("the model's shape is impossible");
  }
  return model;
}

}  // namespace ztplan
