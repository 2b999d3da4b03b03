// Arguments of Megatron-LM's pretrain_gpt.py, both ways.
#pragma once

#include "interop/format.h"

namespace ztplan {

/// The NullTokenizer has one word more than --vocab-size: the end of a
/// document. Source: NVIDIA/Megatron-LM
/// megatron/core/tokenizers/text/libraries/null_tokenizer.py.
inline constexpr int kNullTokenizerWords = 1;

Emitted emit_megatron(const Emission& emission);
Configuration read_megatron(std::string_view path, std::string_view text,
                            const Given& given);

/// The argument of --pipeline-model-parallel-layout for chunks of `layers` in
/// the order they run: "Ettt|tttt|ttttL". Every layer is in it once. Source:
/// NVIDIA/Megatron-LM
/// megatron/core/transformer/pipeline_parallel_layer_layout.py.
std::string pipeline_layout(const std::vector<int>& layers);
/// The layers of each chunk; empty when `text` is no such layout. Understands
/// "t*3" and "(t|)*3" too.
std::vector<int> parse_pipeline_layout(std::string_view text);

}  // namespace ztplan
