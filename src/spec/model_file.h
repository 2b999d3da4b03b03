// Our own model files (models/*.json): every key known, every size checked.
// Finding a file by name is the catalog's; Hugging Face files are hf_config's.
//
//   name, aliases, hub_id, source        who it is and where the shape is from
//   hidden, vocab, sequence              sizes; sequence is a training sequence
//   norm ("layer", "rms"), norm_weight, norm_bias, final_norm, embedding_norm
//   positions ("none", "learned", "rotary", "alibi", "relative"),
//   position_rows, relative_buckets, embedding_size, encoder_layers, tied,
//   head_bias global_batch                         sequences a step, when
//   published published_parameters, published_active_parameters layers groups
//   of equal layers, in order:
//     {"count", "norms", "attention": {...}, "ffn": {...}}, or
//     {"repeat": n, "pattern": [groups]} for groups that take turns
//
// The other keys are the fields of model.h. `kv_heads` defaults to `heads`.
// attention.full_every: n makes each n-th layer of its group see all tokens
// where the others see `window`.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "spec/model.h"

namespace ztplan {

/// Throws `Error` for a missing, unknown or mistyped key, naming its path, and
/// for what `validate` refuses.
ModelSpec read_model_file(const JsonView& file);

/// `origin` names the text in messages.
ModelSpec parse_model_file(std::string_view text, std::string origin);

}  // namespace ztplan
