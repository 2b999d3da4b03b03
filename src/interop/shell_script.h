// Shell scripts that start a training: the arguments they hold, the files they
// source, and the ranks they launch. Nothing is run.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interop/launch.h"

namespace ztplan {

/// "--flag value" of a shell script, or of a plain list.
struct ShellArguments {
  using Assigned = std::map<std::string, std::string, std::less<>>;

  std::map<std::string, std::vector<std::string>, std::less<>> flags;
  std::vector<std::string> names;       // of flags, in order of appearance
  std::vector<std::string> unresolved;  // "--flag $VALUE"
  Assigned assigned;                    // NAME=value
  bool is_cut_off = false;              // ends inside quotes
};

/// Understands quotes, comments, continuations, arrays, and variables that the
/// script assigns. Words of the launcher (torchrun, Slurm, mpirun) are none of
/// the program's.
ShellArguments parse_arguments(std::string_view text);

/// Whether a file is a shell script, by its name or its first line.
bool is_shell_script(std::string_view path, std::string_view text);

/// `text`, the script at `path`, with each file that it sources by a relative
/// path (". ./args.sh") in the place of that line. A file that is not there is
/// left out. Throws `Error` where one cannot be read.
std::string with_sources(std::string_view path, std::string_view text);

/// The ranks a script starts, where it says so in numbers: torchrun's
/// --nnodes and --nproc-per-node, mpirun's -np, Slurm's #SBATCH lines.
std::optional<Ranks> launched_ranks(std::string_view text);

}  // namespace ztplan
