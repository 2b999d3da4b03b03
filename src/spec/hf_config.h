// A Hugging Face config.json as a ModelSpec. The file is a difference against
// the defaults of its family, so an absent key means something else in each;
// keys that do not shape the model are passed over. The families are in
// hf_families.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "spec/model.h"

namespace ztplan {

/// Says which family it is, or at least which architecture.
bool is_hf_config(const JsonView& file);

/// `name` is used when the file has no `_name_or_path`. The spec's sequence is
/// the file's longest, but at most 8192: longer contexts are trained at the
/// end, on few tokens (e.g. Llama 3, arXiv 2407.21783, section 3.4.2). Throws
/// `Error` for an unknown model_type, naming the known ones, for known keys of
/// the wrong type and for what `validate` refuses.
ModelSpec read_hf_config(const JsonView& file, const std::string& name);

/// `origin` names the text in messages, and the model.
ModelSpec parse_hf_config(std::string_view text, const std::string& origin);

/// Every model_type that is understood, in order.
std::vector<std::string> hf_model_types();

}  // namespace ztplan
