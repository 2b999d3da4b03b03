// The program's table of contents: find the command, run it, catch once.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "cli/help.h"

namespace ztplan {
namespace {

constexpr const Command* kCommands[] = {
    &kPlan,      &kMemory, &kSimulate, &kExplain,  &kCompare,
    &kGpus,      &kCheck,  &kDiagnose, &kEmit,     &kRun,
    &kCalibrate, &kModels, &kHardware, &kValidate, &kVersion};

using Words = std::vector<std::string>;

void refuse_words(const Command& command, const Flags& flags) {
  if (flags.words.size() <= command.most_words) return;
  const std::string& extra = flags.words[command.most_words];
  throw Error(fmt::format("{} does not take {}", command.name, quote(extra)),
              fmt::format("usage: ztplan {} {}", command.name, command.usage));
}

Exit run_command(const Words& words) {
  const Command& command = find_command(words[0]);
  const Flags flags =
      parse_flags(command.name, command.groups, std::span(words).subspan(1));
  if (flags.help) {
    print(help_text(command));
    return Exit::yes;
  }
  refuse_words(command, flags);
  return command.run(flags, make_console(flags));
}

// "help", "help plan", "--help", "--version", or nothing at all.
Exit run(Words words) {
  if (words.empty()) {
    note(help_text());
    return Exit::bad_input;
  }
  std::string& first = words[0];
  if (first == "--version" || first == "-V") first = "version";
  const bool help = first == "help" || first == "--help" || first == "-h";
  if (!help) return run_command(words);
  const auto topic =
      std::find_if(words.begin() + 1, words.end(),
                   [](const auto& word) { return !word.starts_with("-"); });
  print(topic == words.end() ? help_text() : help_text(find_command(*topic)));
  return Exit::yes;
}

bool wants_json(const Words& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--json" || words[i].starts_with("--json=") ||
        words[i] == "--format=json") {
      return true;
    }
    const bool next = i + 1 < words.size() && words[i + 1] == "json";
    if (words[i] == "--format" && next) return true;
  }
  return false;
}

Exit run_and_catch(const Words& words) {
  try {
    return run(words);
  } catch (const std::exception&) {
    return complain(std::current_exception(), "",
                    wants_json(words) ? Format::json : Format::table);
  }
}

}  // namespace

std::span<const Command* const> commands() { return kCommands; }

const Command& find_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command* command : kCommands) {
    if (command->name == name) return *command;
    names.emplace_back(command->name);
  }
  const std::string close = nearest_name(name, names);
  throw Error(fmt::format("there is no command {}", quote(name)),
              close.empty() ? "ztplan --help lists them"
                            : fmt::format("did you mean {}?", close));
}

}  // namespace ztplan

int main(int argc, char** argv) {
  using namespace ztplan;
  prepare_process();
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  try {
    return static_cast<int>(run_and_catch(words));
  } catch (const std::exception& problem) {
    note(fmt::format("error: {}\n", problem.what()));  // even that failed
    return static_cast<int>(Exit::failed);
  }
}
