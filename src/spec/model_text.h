// A model in one line: "gpt:layers=24,hidden=1024,heads=16,vocab=50304", or
// "gpt:params=50.4B" for the usual shape of that size; "llama:..." likewise.
//
//   layers (l), hidden (h)         needed, unless params is given
//   heads (a)                      hidden / 128, or / 64 when that divides
//   vocab (v), seq (s)             50257 and 2048 (gpt), 32000 and 4096 (llama)
//   kv_heads (g), head_size (d)    heads, hidden / heads
//   ffn (f)                        4 hidden; llama: 8/3 hidden, up to 256s
//   experts (e), top_k (k)         none; each expert has the width `ffn`
//
// gpt: learned positions, LayerNorm, biases, GELU, tied. llama: rotary,
// RMSNorm, no biases, gated SiLU, untied.
#pragma once

#include <string_view>

#include "spec/model.h"

namespace ztplan {

/// Begins with "word:", as no name of a model or usual path does.
bool is_model_text(std::string_view text);

/// Throws `Error` naming the key and what is allowed.
ModelSpec parse_model_text(std::string_view text);

}  // namespace ztplan
