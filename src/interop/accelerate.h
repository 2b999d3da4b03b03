// The YAML of `accelerate launch --config_file`, both ways.
#pragma once

#include "interop/format.h"

namespace ztplan {

Emitted emit_accelerate(const Emission& emission);
Configuration read_accelerate(std::string_view path, std::string_view text,
                              const Given& given);

}  // namespace ztplan
