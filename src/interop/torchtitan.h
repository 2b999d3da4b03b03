// torchtitan's TOML, of its releases up to 0.2.2, both ways.
#pragma once

#include "interop/format.h"

namespace ztplan {

Emitted emit_torchtitan(const Emission& emission);
Configuration read_torchtitan(std::string_view path, std::string_view text,
                              const Given& given);

}  // namespace ztplan
