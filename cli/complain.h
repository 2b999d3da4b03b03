// How a command that failed says so, and with which exit code.
#pragma once

#include <exception>
#include <string>

#include "cli/command.h"

namespace ztplan {

Exit exit_of(const std::exception_ptr& failure);

/// To stderr, or as JSON to stdout; `speaker` says whose failure it is where
/// there are several, "rank 2", and may be empty.
Exit complain(const std::exception_ptr& failure, const std::string& speaker,
              Format format);

}  // namespace ztplan
