#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/csv.h"
#include "base/table.h"
#include "support/messages.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

CsvTable parse(std::string_view text) { return CsvTable::parse(text, "f"); }

std::string parse_refusal(std::string_view text) {
  return refusal([&] { parse(text); });
}

}  // namespace

TEST_CASE("rows are addressed by column name") {
  const CsvTable table = parse(
      "\xEF\xBB\xBFid,note,seq\r\n"
      "a,\"one, \"\"two\"\"\nthree\",1\r\n"
      "\n"
      "b,,2048");
  REQUIRE(table.size() == 2);
  CHECK(table.columns().size() == 3);
  CHECK(table.has("seq"));
  CHECK_FALSE(table.has("tp"));
  CHECK(table[0].at("note") == "one, \"two\"\nthree");
  CHECK(table[0].line() == 2);
  CHECK(table[1].at("seq") == "2048");
  CHECK(table[1].at("note") == "");
  CHECK(table[1].get("tp") == "");
  CHECK(table[1].line() == 5);
  CHECK(refusal([&] { table[1].fail("no such GPU"); }) ==
        "f: line 5: no such GPU");
  const auto action = [&] { table[0].at("notes"); };
  CHECK(refusal(action) == "f: there is no column \"notes\"");
  CHECK(hint_of(action) == "the nearest is \"note\"");
}

TEST_CASE("a bad row is named by its line") {
  CHECK(parse_refusal("a\n\"x") == "f: line 2: a quote that never closes");
  CHECK(parse_refusal("a\nx\"y\"") ==
        "f: line 2: a quote inside an unquoted cell");
  CHECK(parse_refusal("a\n\"x\"y") ==
        "f: line 2: expected a comma or the end of the line, found \"y\"");
  CHECK(parse_refusal("a\nx\ry") ==
        "f: line 2: expected a comma or the end of the line, found \"\\x0d\"");
  CHECK(parse_refusal("a,a\n1,2\n")
            .ends_with("line 1: column \"a\" stands twice"));
  CHECK(parse_refusal("a,\n").ends_with("a column without a name"));
  CHECK(parse_refusal("") == "f: it is empty");
  CHECK(parse_refusal("\n\r\n") == "f: it is empty");
  CHECK(parse_refusal(std::string_view("a\n\0", 3)) != "");
  CHECK(parse_refusal("a\n") == "");
}

TEST_CASE("a row of too few or too many cells does not spoil its table") {
  const CsvTable table = parse("a,b\n1,2\n3\n4,5,6\n");
  REQUIRE(table.size() == 3);
  CHECK(table[0].fault() == "");
  CHECK(table[1].fault() == "1 cell where the header has 2");
  CHECK(table[1].at("a") == "3");
  CHECK(table[1].at("b") == "");
  CHECK(table[1].get("b") == "");
  CHECK(table[2].fault() == "3 cells where the header has 2");
  CHECK(refusal([&] { table[1].at("c"); }) != "");
}

TEST_CASE("a written table reads back") {
  const std::vector<std::vector<std::string>> rows{
      {"", "\"", "a,b"}, {"\r\n", "x\ny", "\"\""}, {" a ", "é", "'"}};
  const CsvTable read = parse(render_csv({{{"p"}, {"q"}, {"r"}}, rows}));
  REQUIRE(read.size() == rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(read[i].at("p") == rows[i][0]);
    CHECK(read[i].at("q") == rows[i][1]);
    CHECK(read[i].at("r") == rows[i][2]);
  }
}

TEST_CASE("a table is loaded from a file") {
  const TemporaryDirectory here;
  CHECK(CsvTable::load(here.write("t.csv", "a\n1\n"))[0].at("a") == "1");
  CHECK(refusal([&] { CsvTable::load(here.path()); }) != "");
}
