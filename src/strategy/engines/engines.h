// The engines there are, each defined in the file of its name.
#pragma once

#include "strategy/engine.h"

namespace ztplan {

const Engine& megatron_engine();
const Engine& native_engine();
const Engine& deepspeed_engine();
const Engine& fsdp_engine();
const Engine& colossalai_engine();

}  // namespace ztplan
