// The rules of DeepSpeed that are about numbers and optimizers; those of its
// layout are in deepspeed.cc.
#pragma once

#include <span>

#include "strategy/engine.h"

namespace ztplan {

std::span<const Rule> deepspeed_number_rules();

}  // namespace ztplan
