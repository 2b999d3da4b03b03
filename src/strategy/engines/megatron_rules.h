// The rules of Megatron-LM that are about numbers, kernels and optimizers;
// those of its layout are in megatron.cc.
#pragma once

#include <span>

#include "strategy/engine.h"

namespace ztplan {

std::span<const Rule> megatron_number_rules();

}  // namespace ztplan
