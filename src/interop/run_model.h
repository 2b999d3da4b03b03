// The model of a measured run: one of models/ by its name when the shape
// agrees, else a transformer of the row's shape and its family's habits.
#pragma once

#include <string_view>
#include <vector>

#include "base/csv.h"
#include "spec/model.h"

namespace ztplan {

/// Throws `Skip`. Families without an entry in models/: names that begin with
/// llama, qwen, mistral, mixtral, internlm, yi, baichuan, deepseek, chatglm,
/// tinyllama, nemo's "smollm" and rows whose notes say swiglu have gated MLPs,
/// RMSNorm and rotary positions without biases; all others are GPT: GELU,
/// LayerNorm, learned positions, biases, tied head.
ModelSpec model_of_run(const CsvRow& row, const std::vector<ModelSpec>& known);

/// "Llama3-70B (LoRA)" without what stands in parentheses, and that.
std::string_view model_name(std::string_view cell);
std::string_view model_remark(std::string_view cell);

}  // namespace ztplan
