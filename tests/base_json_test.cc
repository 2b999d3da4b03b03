#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "support/messages.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

JsonView parse(std::string_view text) { return JsonView::parse(text, "f"); }

std::string parse_refusal(std::string_view text) {
  return refusal([&] { parse(text); });
}

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

}  // namespace

TEST_CASE("a JSON value is read as its type says") {
  const JsonView v = parse(
      R"({"s": "a\u00e9", "i": -9223372036854775808, "d": 1.5e3, "t": true,
          "n": null, "list": [1, {"x": 2}]})");
  CHECK(v.at("s").string() == "a\xC3\xA9");
  CHECK(v.at("i").integer() == INT64_MIN);
  CHECK(v.at("d").number() == 1500.0);
  CHECK(v.at("t").boolean());
  CHECK(v.has("s"));
  CHECK_FALSE(v.has("n"));
  CHECK_FALSE(v.has("absent"));
  CHECK(v.at("list").size() == 2);
  CHECK(v.at("list")[1].at("x").small_integer(1, 2) == 2);
  CHECK(v.keys() == std::vector<std::string>{"s", "i", "d", "t", "n", "list"});
  CHECK(v.string_or("absent", "x") == "x");
  CHECK(v.integer_or("n", 7) == 7);
  CHECK(v.at("d").number() == 1500.0);
  CHECK_FALSE(v.boolean_or("absent", false));
}

TEST_CASE("a view keeps its document alive") {
  JsonView inner = parse("{}");
  {
    const JsonView outer = parse(R"({"a": {"b": "still here"}})");
    inner = outer.at("a");
  }
  CHECK(inner.at("b").string() == "still here");
}

TEST_CASE("a mistyped value is named by file and path") {
  const JsonView v = parse(
      R"({"layers": [{"count": "two"}], "x": 1e3, "big": 18446744073709551615,
          "odd key": {"a": []}, "half": 0.5, "m": 300})");
  const auto says = [](auto action) { return refusal(action); };
  CHECK(says([&] { v.at("layers")[0].at("count").integer(); }) ==
        "f: layers[0].count: expected a whole number, found \"two\"");
  CHECK(says([&] { v.at("x").integer(); }) ==
        "f: x: expected a whole number, found 1000");
  CHECK(says([&] { v.at("big").integer(); }).find("whole number") !=
        std::string::npos);
  CHECK(says([&] { v.at("half").integer(); }) ==
        "f: half: expected a whole number, found 0.5");
  CHECK(says([&] { v.at("m").small_integer(1, 128); }) ==
        "f: m: expected a whole number from 1 to 128, found 300");
  CHECK(says([&] { v.at("odd key").at("a").string(); }) ==
        "f: [\"odd key\"].a: expected a string, found an array");
  CHECK(says([&] { v.at("half").string(); }) ==
        "f: half: expected a string, found 0.5");
  CHECK(says([&] { v.at("layers").at("count"); }) ==
        "f: layers: expected an object, found an array");
  CHECK(says([&] { v.at("layers")[1]; }) ==
        "f: layers: expected more than 1 elements, found 1");
  CHECK(says([&] { v.at("hidden"); }) == "f: key \"hidden\" is missing");
  CHECK(says([&] { v.at("m").boolean(); }) ==
        "f: m: expected true or false, found 300");
}

TEST_CASE("an unknown key is refused with the nearest known one") {
  const JsonView v = parse(R"({"a": {"hiden": 1}})");
  const auto action = [&] { v.at("a").allow_only({"hidden", "heads"}); };
  CHECK(refusal(action) == "f: a: unknown key \"hiden\"");
  CHECK(hint_of(action) == "did you mean \"hidden\"?");
  const auto far = [&] { v.allow_only({"source", "name"}); };
  CHECK(hint_of(far) == "known keys: source, name");
  v.allow_only({"a", "b"});
}

TEST_CASE("text that is not one JSON value is refused") {
  const char* const bad[] = {
      "",         " ",        "{",        "[1,]",      "{\"a\":1,}",
      "nul",      "NaN",      "inf",      "-Infinity", "1 2",
      "{} x",     "'a'",      "[1] // c", "\"\xFF\"",  "\"\xC0\x80\"",
      "01",       "1e999",    "\"a\nb\"", "{1: 2}",    "+1",
      "\x01\x02", "/* c */ 1"};
  for (const char* text : bad) {
    CAPTURE(text);
    CHECK(parse_refusal(text).starts_with("f: "));
    CHECK(parse_refusal(text).find('\n') == std::string::npos);
  }
  CHECK(parse_refusal("{\n\"a\": x}").starts_with("f: line 2: not JSON: "));
  CHECK(parse_refusal("{\"zero_optim") ==
        "f: line 1: not JSON: object key - invalid string: missing closing "
        "quote");
  CHECK(parse_refusal("1e999") == "f: line 1: a number too large");
  CHECK(parse_refusal(std::string_view("1\0", 2)) != "");
}

TEST_CASE("a byte order mark is not an error") {
  CHECK(parse("\xEF\xBB\xBF{\"a\": 1}").at("a").integer() == 1);
}

TEST_CASE("duplicate keys are refused where they stand") {
  CHECK(parse_refusal(R"({"a": [0, {"b": 1, "c": 2, "b": 1}]})") ==
        "f: a[1]: duplicate key \"b\"");
  CHECK(parse_refusal(R"({"a": {"b": 1}, "c": {"b": 1}})") == "");
}

TEST_CASE("nesting is read to 64 levels and no deeper") {
  CHECK(parse_refusal(nested(64)) == "");
  CHECK(parse_refusal(nested(65)) == "f: nested deeper than 64 levels");
  CHECK(parse_refusal(nested(1'000'000)) == "f: nested deeper than 64 levels");
  CHECK(parse_refusal(std::string(5'000'000, '[')) != "");
}

TEST_CASE("a flood of values is refused") {
  std::string text = "[0";
  for (int i = 0; i < 1'000'001; ++i) text += ",0";
  CHECK(parse_refusal(text + "]") == "f: more than 1000000 values");
}

TEST_CASE("what cannot be a model file is refused at once") {
  const TemporaryDirectory here;
  CHECK(refusal([&] { JsonView::load(here.path()); }).find("is a directory") !=
        std::string::npos);
  const std::string fifo = here.file("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(refusal([&] { JsonView::load(fifo); }).find("not a regular file") !=
        std::string::npos);
  CHECK(refusal([] {
          JsonView::load("/dev/zero");
        }).find("not a regular file") != std::string::npos);
  const std::string huge = here.write("huge.json", "");
  std::filesystem::resize_file(huge, 100'000'000);
  CHECK(refusal([&] { JsonView::load(huge); }).find("larger than 16.0 MiB") !=
        std::string::npos);
  CHECK(refusal([&] {
          JsonView::load(here.file("none.json"));
        }).find("No such file") != std::string::npos);
  CHECK(refusal([] { read_file(std::string("a\0b", 3), Bytes{1}); }) != "");
}

TEST_CASE("a file is read whole up to its limit") {
  const TemporaryDirectory here;
  const std::string content(200'000, 'x');
  const std::string path = here.write("some", content);
  CHECK(read_file(path, Bytes{200'000}) == content);
  CHECK(refusal([&] { read_file(path, Bytes{199'999}); }) != "");
  CHECK(read_file("/proc/self/stat", Bytes{1 << 20}) != "");
}
