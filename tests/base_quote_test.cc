#include <doctest/doctest.h>

#include <string>

#include "base/quote.h"

using namespace ztplan;

TEST_CASE("a user's text is shown on one safe line") {
  struct Row {
    std::string text, shown;
  };
  const Row rows[] = {
      {"80GB", "\"80GB\""},
      {"", "\"\""},
      {"a\nb\tc\"d", "\"a\\nb\\tc\\\"d\""},
      {"\x1b[31m", "\"\\x1b[31m\""},
      {"µs", "\"µs\""},
      {"\xFF\xC3", "\"\\xff\\xc3\""},
      {"\xC2\x9B", "\"\\xc2\\x9b\""},  // C1 control sequence introducer
      {"\xED\xA0\x80", "\"\\xed\\xa0\\x80\""},  // a surrogate
      {std::string(61, 'x'), "\"" + std::string(60, 'x') + "...\""},
  };
  for (const Row& row : rows) CHECK(quote(row.text) == row.shown);
}
