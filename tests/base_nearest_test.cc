#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/nearest.h"

using namespace ztplan;

TEST_CASE("a slip finds the name that was meant") {
  const std::vector<std::string> names{
      "gpt3-175b", "llama3-70b", "llama3-8b", "175b",    "bloom-176b",
      "llama-13b", "gpt-j",      "gpt2",      "mixtral", "mistral-7b"};
  struct Row {
    const char *wrong, *meant;
  };
  const Row rows[] = {
      {"lama3-70b", "llama3-70b"},
      {"llama3-70", "llama3-70b"},
      {"lalma3-8b", "llama3-8b"},
      {"GPT3-175B", "gpt3-175b"},
      {"157b", "175b"},
      {"bloom", "bloom-176b"},
      {"llama3", "llama3-8b"},
      {"mistral", "mistral-7b"},
      {"mistrall", "mixtral"},
      {"llama3-8b-instruct", "llama3-8b"},
      {"gpt-2", "gpt2"},
      {"GPT_J", "gpt-j"},
      {"zebra", ""},
      {"x", ""},
      {"", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.wrong);
    CHECK(nearest_name(row.wrong, names) == row.meant);
  }
  CHECK(nearest_name(std::string(1'000'000, 'a'), names) == "");
  CHECK(nearest_name("a", {}) == "");
}

TEST_CASE("nearest values stand on both sides") {
  const std::vector<long> powers{1, 2, 4, 8};
  CHECK(nearest_values(3, powers) == "2 or 4");
  CHECK(nearest_values(6, powers) == "4 or 8");
  CHECK(nearest_values(4, powers) == "4");
  CHECK(nearest_values(0, powers) == "1");
  CHECK(nearest_values(9, powers) == "8");
  CHECK(nearest_values(9, {}) == "");
}
