#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "report/failure.h"
#include "report/number_text.h"
#include "report/style.h"

using namespace ztplan;

TEST_CASE("a number is shown in three digits") {
  struct Row {
    double value;
    const char* text;
  };
  for (const Row& row :
       {Row{0, "0"}, Row{0.0123456, "0.0123"}, Row{0.5, "0.500"},
        Row{1, "1.00"}, Row{9.994, "9.99"}, Row{9.996, "10.0"},
        Row{12.345, "12.3"}, Row{99.96, "100"}, Row{1234.4, "1234"},
        Row{-2.5, "-2.50"}, Row{0.00999996, "0.0100"}}) {
    CAPTURE(row.value);
    CHECK(three_digits(row.value) == row.text);
  }
}

TEST_CASE("a count is shown with its decimal prefix") {
  struct Row {
    double count;
    const char* text;
  };
  for (const Row& row :
       {Row{174604259328, "175B"}, Row{7241732096, "7.24B"},
        Row{423456, "423K"}, Row{413.2, "413"}, Row{999600, "1.00M"},
        Row{1e15, "1000T"}, Row{12, "12"}}) {
    CAPTURE(row.count);
    CHECK(count_text(row.count) == row.text);
  }
}

TEST_CASE("digits are grouped by thousands") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(174604259328) == "174,604,259,328");
  CHECK(grouped(-1234567) == "-1,234,567");
  CHECK(grouped(-123) == "-123");
}

TEST_CASE("a failure is one line and a hint, or an object") {
  const Failure failure{"bad_input", "there is no model \"x\"", "look"};
  CHECK(to_text(failure) == "error: there is no model \"x\"\nhint: look\n");
  CHECK(to_text(Failure{"failed", "no", ""}) == "error: no\n");
  CHECK(to_json(failure) ==
        "{\n  \"error\": {\n    \"code\": \"bad_input\",\n"
        "    \"message\": \"there is no model \\\"x\\\"\",\n"
        "    \"hint\": \"look\"\n  }\n}\n");
}

TEST_CASE("color is used when asked, and never else") {
  Style style;
  CHECK(paint(style, Paint::bad, "no") == "no");
  style.color = true;
  CHECK(paint(style, Paint::bad, "no") == "\x1b[31mno\x1b[0m");
  CHECK(paint(style, Paint::plain, "no") == "no");
}

TEST_CASE("an unknown format names those there are") {
  CHECK(parse_format("md") == Format::md);
  CHECK_THROWS_WITH_AS(parse_format("xml"),
                       "--format must be table, json, csv or md, not \"xml\"",
                       Error);
}
