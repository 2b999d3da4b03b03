#include "interop/run_adapters.h"

#include <algorithm>
#include <array>
#include <string>

#include "interop/run_cells.h"
#include "interop/run_model.h"

namespace ztplan {
namespace {

constexpr Adapters kAll{.q = true,
                        .k = true,
                        .v = true,
                        .o = true,
                        .gate = true,
                        .up = true,
                        .down = true};
constexpr Adapters kQkv{.q = true, .k = true, .v = true};
constexpr Adapters kQv{.q = true, .v = true};
constexpr Adapters kMlp{.gate = true, .up = true, .down = true};

/// What a source's own scripts train when a row says no more.
struct UsualAdapters {
  std::string_view source;
  int rank;
  Adapters targets;
};
// QwenLM/Qwen finetune.py (c_attn, c_proj, w1, w2); litgpt finetune/lora.py;
// PEFT's FSDP and DeepSpeed guides (r=8, all-linear); modelscope/ms-swift
// (c_attn); NeMo's fine-tuning recipes (linear_qkv); torchtune recipes with
// apply_lora_to_mlp; NeMo Automodel's PEFT recipes (dim 8, all linear layers).
constexpr std::array kUsual = {
    UsualAdapters{"qwen-finetune", 64, kAll},
    UsualAdapters{"litgpt", 8, kQv},
    UsualAdapters{"hf-peft", 8, kAll},
    UsualAdapters{"ms-swift", 8, kQkv},
    UsualAdapters{"nemo-h100-fp8", 32, kQkv},
    UsualAdapters{"megatron-bridge", 32, kQkv},
    UsualAdapters{"megatron-bridge-cards", 32, kAll},
    UsualAdapters{"megatron-bridge-skills", 32, kAll},
    UsualAdapters{"torchtune", 8, kAll},
    UsualAdapters{"nemo-automodel", 8, kAll},
};
constexpr UsualAdapters kElsewhere{"", 8, kAll};

UsualAdapters usual_of(std::string_view source) {
  const auto found = std::ranges::find(kUsual, source, &UsualAdapters::source);
  return found == kUsual.end() ? kElsewhere : *found;
}

Adapters targets_of(const CsvRow& row, const Adapters& usual) {
  if (notes_say(row, "on q,v")) return kQv;
  if (notes_say(row, "on mlp")) return kMlp;
  if (notes_say(row, "on all")) return kAll;
  if (notes_say(row, "qkv") || notes_say(row, "c_attn")) return kQkv;
  return usual;
}

void check_kind(const CsvRow& row, const std::string& remark) {
  const bool is_lora = says(remark, "lora");
  if (!is_lora || notes_say(row, "dora") || notes_say(row, "lora-fa"))
    throw Skip("adapters other than LoRA cannot be said yet");
  if (notes_say(row, "trains embedding"))
    throw Skip("embeddings are trained beside adapters");
}

}  // namespace

Adapters adapters_of_run(const CsvRow& row) {
  const std::string remark = folded(model_remark(row.get("model")));
  if (!says(remark, "lora") && !says(remark, "adapter")) return {};
  check_kind(row, remark);
  const UsualAdapters usual = usual_of(row.get("source"));
  Adapters adapters = targets_of(row, usual.targets);
  adapters.rank = noted_number(row, "rank ").value_or(usual.rank);
  if (adapters.rank == 0) throw Skip("the rank of its adapters is 0");
  return adapters;
}

// GPTQ's groups of 128 carry 16-bit scales and 4-bit zeros: 4.16 bits, as
// NormalFloat with quantized scales (4.13).
Quantize quantize_of_run(const CsvRow& row) {
  const std::string text = folded(row.get("precision"));
  if (says(text, "nf4-dq") || says(text, "int4")) return Quantize::nf4_double;
  if (says(text, "nf4")) return Quantize::nf4;
  return says(text, "int8") ? Quantize::int8 : Quantize::none;
}

}  // namespace ztplan
