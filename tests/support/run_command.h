// The program as a user runs it: words in, two streams and an exit code out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ztplan {

struct CommandResult {
  int exit_code = 0;  // 128 + the number of the signal that ended it
  std::string output, errors;
};

/// Runs `words` (the first is a path) in `directory`, with NO_COLOR set and an
/// empty standard input. Throws `std::runtime_error` when it cannot be started.
CommandResult run_command(const std::vector<std::string>& words,
                          const std::string& directory);

/// The same, interrupted (SIGINT) as soon as its output holds `said`.
CommandResult interrupt_command(const std::vector<std::string>& words,
                                const std::string& directory,
                                std::string_view said);

/// Splits a command line as a shell does: blanks, '...', "..." and \. Throws
/// `Error` for what only a real shell can do: pipes, variables, redirections.
std::vector<std::string> shell_words(std::string_view line);

}  // namespace ztplan
