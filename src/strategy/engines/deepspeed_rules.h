// The rules of DeepSpeed that are about numbers and optimizers; those of its
// layout are in deepspeed.cc.
#pragma once

#include <span>

#include "strategy/engine.h"

namespace ztplan {

std::span<const Rule> deepspeed_number_rules();

/// Whether AutoEP can replace the experts of `model`: gated, of three matrices
/// without biases. It knows Mixtral, Qwen3-MoE, Qwen3.5-MoE and DeepSeek-V2 and
/// V3 by name, others by patterns that the user gives. Source:
/// deepspeedai/DeepSpeed deepspeed/module_inject/auto_ep_config.py; issues
/// 7938, 8060.
bool auto_ep_replaces(const ModelSpec& model);

}  // namespace ztplan
