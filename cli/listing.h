// What the commands that list things share: "show NAME".
#pragma once

#include <string>

#include "cli/flags.h"

namespace ztplan {

/// NAME of "show NAME"; empty without words. Throws `Error` on other words.
std::string shown_name(const std::string& command, const Flags& flags);

}  // namespace ztplan
