// A command: its name, its help, its flags, and the function that answers.
#pragma once

#include <array>
#include <span>
#include <string>

#include "cli/console.h"
#include "cli/flags.h"

namespace ztplan {

/// Exit codes a script may rely on.
enum class Exit {
  yes = 0,
  failed = 1,
  bad_input = 2,
  nothing_fits = 3,
  illegal = 4,
  below_margin = 5,
  deviates = 6,
  interrupted = 130
};

struct Command {
  const char* name;
  const char* summary;  // of one line
  const char* usage;    // what follows the name
  std::array<const char*, 3> examples;
  std::span<const FlagGroup* const> groups;
  std::size_t most_words;  // arguments without a dash
  Exit (*run)(const Flags& flags, const Console& console);
};

extern const Command kPlan, kMemory, kSimulate, kExplain, kModels, kHardware,
    kValidate, kVersion, kEmit, kCheck, kCompare, kGpus, kDiagnose, kRun,
    kCalibrate;

/// All commands in the order of the help.
std::span<const Command* const> commands();

/// Throws `Error` with the nearest command there is.
const Command& find_command(const std::string& name);

}  // namespace ztplan
