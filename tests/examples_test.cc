// The readers of golden files and documents, and the runner below them.
#include "support/examples.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/messages.h"
#include "support/run_command.h"

using namespace ztplan;

TEST_CASE("a golden file is command, exit code and both streams") {
  const std::string text =
      "$ ztplan memory --model x\n"
      "# exit 2\n"
      "line\n"
      "# stderr\n"
      "error: no such model\n";
  const Example example = parse_golden(text);
  CHECK(example.command == "ztplan memory --model x");
  CHECK(example.exit_code == 2);
  CHECK(render_golden(example.command,
                      {2, "line\n", "error: no such model\n"}) == text);
  CHECK(parse_golden("$ ztplan version\nztplan 1\n").exit_code == 0);
  CHECK(refusal([] { parse_golden("ztplan version\n"); }) != "");
}

TEST_CASE("a document's console blocks are its examples") {
  const std::string text =
      "# Title\n"
      "```sh\n"
      "$ rm -rf everything\n"
      "```\n"
      "```console\n"
      "$ ztplan a \\\n"
      "    --b\n"
      "one\n"
      "...\n"
      "$ ./bootstrap c\n"
      "```\n"
      "$ not a command\n";
  const std::vector<Example> examples = parse_document(text);
  REQUIRE(examples.size() == 2);
  CHECK(examples[0].command == "ztplan a     --b");
  CHECK(examples[0].line == 6);
  CHECK(examples[0].expected == "one\n...\n");
  CHECK(examples[1].expected == "");
  CHECK(update_document(text, {{0, "one\nx\n", ""}, {0, "two\n", ""}}) ==
        text.substr(0, text.rfind("```")) + "two\n" +
            text.substr(text.rfind("```")));
  CHECK(refusal([] { parse_document("```console\n$ ls\n```\n"); }) ==
        "a test cannot run \"ls\"");
  CHECK(refusal([] { parse_document("```console\n$ ./bootstrap test\n"); }) !=
        "");
}

TEST_CASE("three dots stand for any lines") {
  struct Row {
    const char *expected, *actual;
    bool agree;
  };
  const Row rows[] = {
      {"a\nb\n", "a\nb\n", true},
      {"a\n", "a\nb\n", false},
      {"a\nb\n", "a\n", false},
      {"a\n...\nc\n", "a\nb\nb\nc\n", true},
      {"a\n...\nc\n", "a\nc\n", true},
      {"a\n...\nc\n", "a\nc\nd\n", false},
      {"...\nb\n...\n", "a\nb\nb\nc\n", true},
      {"...\n", "", true},
      {"", "", true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.expected);
    CAPTURE(row.actual);
    CHECK(matches(row.expected, row.actual) == row.agree);
  }
}

TEST_CASE("a difference shows what is missing and what is new") {
  CHECK(difference("a\nb\nc\n", "a\nx\nc\n") == "  a\n- b\n+ x\n  c\n");
  CHECK(difference("", "a\n") == "+ a\n");
}

TEST_CASE("words are split as a shell does") {
  CHECK(shell_words(R"(a  'b c' "d \" e" f\ g '' tp=8,pp=1)") ==
        std::vector<std::string>{"a", "b c", "d \" e", "f g", "", "tp=8,pp=1"});
  CHECK(shell_words("  ").empty());
  for (const char* line : {"a | b", "a > b", "a $B", "a; b", "'a", "a &"}) {
    CAPTURE(line);
    CHECK(refusal([&] { shell_words(line); }) != "");
  }
}

TEST_CASE("a command gives both streams and its exit code") {
  const auto shell = [](const char* script) {
    return run_command({"/bin/sh", "-c", script}, "/");
  };
  const CommandResult both = shell("echo out; echo err >&2; exit 3");
  CHECK(both.output == "out\n");
  CHECK(both.errors == "err\n");
  CHECK(both.exit_code == 3);
  CHECK(shell("pwd").output == "/\n");
  CHECK(shell("cat").output == "");
  CHECK(shell("echo $NO_COLOR").output == "1\n");
  CHECK(shell("kill -9 $$").exit_code == 137);
  CHECK(shell("head -c 300000 /dev/zero >&2; echo done").output == "done\n");
  CHECK_THROWS(run_command({"/no/such/program"}, "/"));
}
