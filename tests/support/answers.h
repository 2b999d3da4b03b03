// The program as it was built, asked one line at a time.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "support/run_command.h"

namespace ztplan {

/// "ztplan LINE", run in `directory`.
CommandResult run_line(const std::string& line,
                       const std::string& directory = ".");

struct Answer {
  int exit_code = 0;
  nlohmann::json data;
};

/// "ztplan LINE --json". Requires JSON on stdout and nothing on stderr.
Answer run_json(const std::string& line);

/// The same, and exit code 0.
nlohmann::json answer(const std::string& line);

}  // namespace ztplan
