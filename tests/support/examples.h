// Commands with the output they promise, as golden files and documents hold
// them. Running them is run_command's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/run_command.h"

namespace ztplan {

/// A command line and what a terminal shows after it.
struct Example {
  int line = 0;          // where the command stands in its file
  std::string command;   // "ztplan memory --model gpt2"
  int exit_code = 0;     // documents do not say it
  std::string expected;  // may hold lines "...": any lines, or none
};

/// Reads "$ COMMAND", "# exit N" when N is not 0, the expected output and,
/// when something is expected on stderr, "# stderr" and that.
Example parse_golden(std::string_view text);
std::string render_golden(const std::string& command,
                          const CommandResult& result);

/// What `render_golden` writes after command and exit code.
std::string render_streams(const CommandResult& result);

/// The commands of all ```console blocks: each line "$ ztplan ..." (or
/// "$ ./bootstrap ...", the same program; a \ at its end goes on) and the
/// lines up to the next one. Throws `Error` for any other command.
std::vector<Example> parse_document(std::string_view text);

/// The document with the output of its commands, in order, in the place of
/// what was expected; where that held "..." it stays.
std::string update_document(std::string_view text,
                            const std::vector<CommandResult>& results);

/// True when the lines agree; a line "..." of `expected` stands for any lines.
bool matches(std::string_view expected, std::string_view actual);

/// The lines of both: "-" only expected, "+" only actual, " " in both.
std::string difference(std::string_view expected, std::string_view actual);

/// Words to run: `program` in the place of the program's name.
std::vector<std::string> words_to_run(const std::string& command,
                                      const std::string& program);

}  // namespace ztplan
