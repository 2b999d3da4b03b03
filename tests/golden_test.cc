// Every golden file and every ```console block is run as a user would, in a
// directory that looks like the repository. ZTPLAN_UPDATE_GOLDEN=1 writes what
// the program says into them instead (tools/update_golden).
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "support/examples.h"
#include "support/run_command.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

const std::filesystem::path kRoot = ZTPLAN_SOURCE_DIR;

bool is_update() { return std::getenv("ZTPLAN_UPDATE_GOLDEN") != nullptr; }

std::string content(const std::filesystem::path& path) {
  return read_file(path.string(), Bytes{16 * kMiB});
}

void replace_content(const std::filesystem::path& path,
                     const std::string& text) {
  if (content(path) != text) std::ofstream(path, std::ios::binary) << text;
}

std::vector<std::filesystem::path> files(const char* folder,
                                         const char* ending) {
  std::vector<std::filesystem::path> found;
  if (!std::filesystem::exists(kRoot / folder)) return found;
  for (const auto& entry :
       std::filesystem::directory_iterator(kRoot / folder)) {
    if (entry.path().extension() == ending) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

/// A directory with links to all of the repository: what a command writes
/// does not land in it.
class Repository {
 public:
  Repository() {
    for (const auto& entry : std::filesystem::directory_iterator(kRoot)) {
      const std::string name = entry.path().filename().string();
      if (name == ".git" || name.starts_with("build")) continue;
      std::filesystem::create_symlink(entry.path(), here_.file(name));
    }
  }
  CommandResult run(const std::string& command) const {
    return run_command(words_to_run(command, ZTPLAN_BINARY), here_.path());
  }

 private:
  TemporaryDirectory here_;
};

}  // namespace

TEST_CASE("golden files say what the program says") {
  for (const auto& path : files("tests/golden", ".txt")) {
    CAPTURE(path.string());
    const Example example = parse_golden(content(path));
    const CommandResult result = Repository().run(example.command);
    if (is_update()) {
      replace_content(path, render_golden(example.command, result));
      continue;
    }
    CHECK(result.exit_code == example.exit_code);
    const std::string actual = render_streams(result);
    CHECK_MESSAGE(actual == example.expected,
                  difference(example.expected, actual));
  }
}

TEST_CASE("documents show what the program says") {
  std::vector<std::filesystem::path> documents = files("examples", ".md");
  documents.push_back(kRoot / "README.md");
  for (const auto& path : documents) {
    if (!std::filesystem::exists(path)) continue;
    CAPTURE(path.string());
    const Repository repository;
    std::vector<CommandResult> results;
    for (const Example& example : parse_document(content(path))) {
      CAPTURE(example.line);
      results.push_back(repository.run(example.command));
      const std::string actual = results.back().output + results.back().errors;
      if (is_update()) continue;
      CHECK_MESSAGE(matches(example.expected, actual),
                    difference(example.expected, actual));
    }
    if (is_update()) {
      replace_content(path, update_document(content(path), results));
    }
  }
}
