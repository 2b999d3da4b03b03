// ds_config.json, both ways.
#pragma once

#include "interop/format.h"

namespace ztplan {

Emitted emit_deepspeed(const Emission& emission);
Configuration read_deepspeed(std::string_view path, std::string_view text,
                             const Given& given);

}  // namespace ztplan
