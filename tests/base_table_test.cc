#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "base/table.h"

using namespace ztplan;

namespace {

Table example() {
  return {{{"term", Align::left}, {"GiB", Align::right}, {"", Align::left}},
          {{"parameters", "2.54", ""}, {"a|b", "10.0", "± 5%, \"high\""}}};
}

}  // namespace

TEST_CASE("text columns are as wide as their widest cell") {
  CHECK(render_text(example()) ==
        "term         GiB\n"
        "parameters  2.54\n"
        "a|b         10.0  ± 5%, \"high\"\n");
}

TEST_CASE("a character of two bytes is one wide") {
  CHECK(render_text({{{"", Align::right}, {"", Align::left}},
                     {{"µs", "x"}, {"abc", "y"}}}) ==
        " µs  x\n"
        "abc  y\n");
  CHECK(display_width("± 5") == 3);
}

TEST_CASE("Markdown keeps alignment and escapes bars") {
  CHECK(render_markdown(example()) ==
        "| term | GiB |  |\n"
        "| --- | ---: | --- |\n"
        "| parameters | 2.54 |  |\n"
        "| a\\|b | 10.0 | ± 5%, \"high\" |\n");
}

TEST_CASE("CSV quotes what RFC 4180 says") {
  CHECK(render_csv(example()) ==
        "term,GiB,\n"
        "parameters,2.54,\n"
        "a|b,10.0,\"± 5%, \"\"high\"\"\"\n");
}

TEST_CASE("a short row is our bug") {
  CHECK_THROWS_AS(render_text({{{"a"}, {"b"}}, {{"1"}}}), Bug);
}
