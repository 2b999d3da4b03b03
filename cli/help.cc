#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>

namespace ztplan {
namespace {

constexpr char kExitCodes[] =
    "Exit codes: 0 yes or found, 1 the tool failed, 2 bad input, 3 nothing "
    "fits,\n4 illegal, 5 below the margin (--strict), 6 beyond --tolerance, "
    "130 interrupted.\n";

constexpr std::size_t kFlagWidth = 24;

std::string flag_line(const Flag& flag) {
  std::string left = fmt::format("  {}", flag.name);
  std::replace(left.begin(), left.end(), ',', ' ');
  if (flag.value != nullptr) left += fmt::format(" {}", flag.value);
  return fmt::format("{:<{}} {}\n", left, kFlagWidth, flag.help);
}

}  // namespace

std::string help_text() {
  std::string text =
      "Plans the training of large models: what fits, how fast, which is "
      "best.\n\n"
      "  ztplan plan --model 175b --gpus 1024\n"
      "  ztplan memory --model llama3-8b --gpus 8 --strategy zero=3\n"
      "  ztplan explain --model 175b --gpus 1024 --strategy tp=16,pp=8\n\n"
      "Commands\n";
  for (const Command* command : commands()) {
    text += fmt::format("  {:<10} {}\n", command->name, command->summary);
  }
  return text + "\nztplan COMMAND --help shows its flags.\n" + kExitCodes;
}

std::string help_text(const Command& command) {
  std::string text = fmt::format("{}\n\n", command.summary);
  for (const char* example : command.examples) {
    text += fmt::format("  {}\n", example);
  }
  text += fmt::format("\nUsage: ztplan {}{}{}\n", command.name,
                      *command.usage == '\0' ? "" : " ", command.usage);
  for (const FlagGroup* group : command.groups) {
    text += fmt::format("\n{}\n", group->title);
    for (const Flag& flag : group->flags) text += flag_line(flag);
  }
  return text + "\n" + kExitCodes;
}

}  // namespace ztplan
