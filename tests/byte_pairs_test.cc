#include "exec/byte_pairs.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "support/messages.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

using Tokens = std::vector<std::int32_t>;

std::string corpus() {
  return read_file(std::string(ZTPLAN_SOURCE_DIR) + "/CONTRIBUTING.md",
                   Bytes{kMiB});
}

/// Learns by counting anew each time: slow and obvious.
std::string trained_slowly(std::string_view text, int merges) {
  std::vector<Tokens> words;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view spaces = " \t\n\v\f\r";
    if (i == 0 || spaces.find(text[i]) != std::string_view::npos) {
      words.emplace_back();
    }
    words.back().push_back(static_cast<unsigned char>(text[i]));
  }
  std::string written = "ztplan byte pairs 1\n";
  for (int token = 256; token < 256 + merges; ++token) {
    std::map<std::pair<int, int>, int> counts;
    for (const Tokens& word : words) {
      for (std::size_t i = 1; i < word.size(); ++i) {
        ++counts[{word[i - 1], word[i]}];
      }
    }
    auto best = counts.begin();
    for (auto at = counts.begin(); at != counts.end(); ++at) {
      if (at->second > best->second) best = at;
    }
    const auto left = best->first.first, right = best->first.second;
    written += std::to_string(left) + " " + std::to_string(right) + "\n";
    for (Tokens& word : words) {
      for (std::size_t i = 1; i < word.size(); ++i) {
        if (word[i - 1] != left || word[i] != right) continue;
        word[i - 1] = token;
        word.erase(word.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }
  return written;
}

}  // namespace

// The example of Wikipedia's "Byte-pair encoding".
TEST_CASE("the most frequent pair is merged first") {
  const BytePairs pairs = BytePairs::train("aaabdaaabac", 259);
  // aa is there 4 times, ab 2 once aa is one: Z = aa, then Y = ab, X = ZY.
  CHECK(pairs.text() == "ztplan byte pairs 1\n97 97\n97 98\n256 257\n");
  CHECK(pairs.encode("aaabdaaabac") == Tokens{258, 100, 258, 97, 99});
}

TEST_CASE("training counts as a slow twin does") {
  const std::string text = corpus();
  CHECK(BytePairs::train(text, 256 + 60).text() == trained_slowly(text, 60));
}

TEST_CASE("training ends when no pair is there twice") {
  CHECK(BytePairs::train("", 1000).vocabulary() == 256);
  CHECK(BytePairs::train("abcdef", 1000).vocabulary() == 256);
  CHECK(BytePairs::train("abab", 1000).vocabulary() == 257);
}

TEST_CASE("a text comes back from its tokens") {
  const std::string text = corpus();
  const BytePairs pairs = BytePairs::train(text, 600);
  const Tokens tokens = pairs.encode(text);
  CHECK(pairs.vocabulary() == 600);
  CHECK(tokens.size() < text.size() * 6 / 10);
  CHECK(pairs.decode(tokens) == text);
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    std::string other;
    for (auto size = random() % 50; size > 0; --size) {
      other += static_cast<char>(random() % 256);
    }
    CHECK(pairs.decode(pairs.encode(other)) == other);
  }
}

TEST_CASE("no token crosses the begin of a word") {
  const std::string text = corpus();
  const BytePairs pairs = BytePairs::train(text, 600);
  for (std::int32_t token = 0; token < pairs.vocabulary(); ++token) {
    const std::string word = pairs.decode(Tokens{token});
    CHECK(word.find_first_of(" \t\n\v\f\r", 1) == std::string::npos);
  }
}

TEST_CASE("byte pairs come back from their file") {
  const TemporaryDirectory folder;
  const BytePairs pairs = BytePairs::train(corpus(), 400);
  pairs.save(folder.file("pairs.txt"));
  CHECK(BytePairs::load(folder.file("pairs.txt")) == pairs);
}

TEST_CASE("a line that is no pair is refused") {
  struct Row {
    std::string text, why;
  };
  const std::string first = "ztplan byte pairs 1\n";
  const Row rows[] = {
      {"", "line 1: expected \"ztplan byte pairs 1\""},
      {"ztplan byte pairs 2\n", "line 1: expected \"ztplan byte pairs 1\""},
      {first + "1 2\n97\n",
       "line 3: expected two tokens below 257, found "
       "\"97\""},
      {first + "1 256\n",
       "line 2: expected two tokens below 256, found "
       "\"1 256\""},
      {first + "-1 3\n",
       "line 2: expected two tokens below 256, found "
       "\"-1 3\""},
      {first + "1 2 3\n",
       "line 2: expected two tokens below 256, found "
       "\"1 2 3\""},
      {first + "99999999999 2\n",
       "line 2: expected two tokens below 256, "
       "found \"99999999999 2\""},
      {first + "\n", "line 2: expected two tokens below 256, found \"\""}};
  for (const Row& row : rows) {
    CHECK(refusal([&] { BytePairs::parse(row.text, "x"); }) == "x: " + row.why);
  }
  CHECK(refusal([] { BytePairs::train("", 256).decode(Tokens{256}); }) ==
        "token 256 is not of the vocabulary, which ends at 255");
}
