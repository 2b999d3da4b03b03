#include "support/answers.h"

#include <doctest/doctest.h>

#include <vector>

namespace ztplan {

using nlohmann::json;

CommandResult run_line(const std::string& line, const std::string& directory) {
  std::vector<std::string> words = shell_words(line);
  words.insert(words.begin(), ZTPLAN_BINARY);
  return run_command(words, directory);
}

Answer run_json(const std::string& line) {
  const CommandResult result = run_line(line + " --json");
  CAPTURE(line);
  CAPTURE(result.errors);
  REQUIRE(json::accept(result.output));
  CHECK(result.errors.empty());
  return {result.exit_code, json::parse(result.output)};
}

json answer(const std::string& line) {
  const Answer found = run_json(line);
  CAPTURE(line);
  CAPTURE(found.data.dump());
  REQUIRE(found.exit_code == 0);
  return found.data;
}

}  // namespace ztplan
