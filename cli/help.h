// The words behind --help: examples first, then one line a flag.
#pragma once

#include <string>

#include "cli/command.h"

namespace ztplan {

std::string help_text();
std::string help_text(const Command& command);

}  // namespace ztplan
