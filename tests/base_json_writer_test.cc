#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/json_writer.h"

using namespace ztplan;

namespace {

using Layout = JsonWriter::Layout;

template <class T>
std::string written(const T& value) {
  JsonWriter writer(Layout::one_line);
  writer.value(value);
  return writer.take();
}

}  // namespace

TEST_CASE("an answer keeps the order of its keys") {
  JsonWriter writer(Layout::indented);
  writer.begin_object().field("z", 1).key("list").begin_array();
  writer.value("a").value(2.5).begin_object().end_object().end_array();
  writer.key("empty").begin_array().end_array();
  writer.key("none").null().field("yes", true).end_object();
  CHECK(writer.take() ==
        "{\n"
        "  \"z\": 1,\n"
        "  \"list\": [\n"
        "    \"a\",\n"
        "    2.5,\n"
        "    {}\n"
        "  ],\n"
        "  \"empty\": [],\n"
        "  \"none\": null,\n"
        "  \"yes\": true\n"
        "}\n");
}

TEST_CASE("one line is one line") {
  JsonWriter writer(Layout::one_line);
  writer.begin_object().field("step", 1).field("loss", 0.5).end_object();
  CHECK(writer.take() == R"({"step":1,"loss":0.5})");
}

TEST_CASE("numbers are exact") {
  CHECK(written(std::int64_t{174604259328}) == "174604259328");
  CHECK(written(INT64_MIN) == "-9223372036854775808");
  CHECK(written(UINT64_MAX) == "18446744073709551615");
  CHECK(written(Bytes{80}) == "80");
  CHECK(written(Seconds{0.1}) == "0.1");
  CHECK(written(0.0) == "0.0");
  CHECK(written(1536.0) == "1536.0");
  CHECK(written(true) == "true");
  for (double x = 1e-300; x < 1e300; x *= -1.7e11 / 3) {
    CHECK(nlohmann::json::parse(written(x)).get<double>() == x);
  }
}

TEST_CASE("any text becomes valid JSON") {
  const std::string hard = "a\"b\\c\n\t\x01\x7F \xC3\xA9 </x>";
  CHECK(nlohmann::json::parse(written(hard)) == hard);
  CHECK(nlohmann::json::parse(written(std::string("\xFFx\xC3"))) ==
        "\xEF\xBF\xBDx\xEF\xBF\xBD");
  CHECK(nlohmann::json::parse(written(std::string("a\0b", 3))) ==
        std::string("a\0b", 3));
}

TEST_CASE("a broken order of calls is our bug") {
  CHECK_THROWS_AS(written(std::numeric_limits<double>::infinity()), Bug);
  CHECK_THROWS_AS(JsonWriter(Layout::indented).take(), Bug);
  CHECK_THROWS_AS(JsonWriter(Layout::indented).key("a"), Bug);
  CHECK_THROWS_AS(JsonWriter(Layout::indented).begin_object().value(1), Bug);
  CHECK_THROWS_AS(JsonWriter(Layout::indented).begin_object().end_array(), Bug);
  CHECK_THROWS_AS(JsonWriter(Layout::indented).begin_object().take(), Bug);
  CHECK_THROWS_AS(JsonWriter(Layout::indented).value(1).value(2), Bug);
}
