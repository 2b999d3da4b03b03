// The program as scripts use it: exit codes, files, pipes, help.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "support/answers.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

CommandResult shell(const std::string& script, const std::string& directory) {
  return run_command({"/bin/sh", "-c", script, "sh", ZTPLAN_BINARY}, directory);
}

std::string content(const std::string& path) {
  return read_file(path, Bytes{kGiB});
}

std::size_t files_in(const std::string& directory) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(directory), {}));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

}  // namespace

TEST_CASE("exit codes say what the answer was") {
  struct Row {
    const char* line;
    int exit_code;
  };
  for (const Row& row :
       {Row{"plan --model gpt2 --gpus 8", 0},
        Row{"plan --model 175b --gpus 1 --offload none", 3},
        Row{"plan --model gpt2 --gpus 8 --tp 8 --pp 5", 4},
        Row{"memory --model gpt2 --strategy dp=8", 0},
        Row{"memory --model 175b --strategy dp=8", 3},
        Row{"simulate --model 175b --strategy dp=8", 3},
        Row{"memory --model gpt2 --strategy dp=8 --margin 99% --strict", 5},
        Row{"memory --model gpt2 --strategy dp=8 --margin 99%", 0},
        Row{"explain --model gpt2 --gpus 8 --strategy tp=4", 0},
        Row{"explain --model gpt2 --gpus 8 --strategy tp=8", 4},
        Row{"explain --model 175b --gpus 8 --strategy dp=8", 3},
        Row{"version", 0}, Row{"--version", 0}, Row{"--help", 0},
        Row{"help plan", 0}, Row{"plan --help", 0}}) {
    CAPTURE(std::string(row.line));
    const CommandResult result = run_line(row.line, ".");
    CAPTURE(result.errors);
    CHECK(result.exit_code == row.exit_code);
    CHECK(!(result.output.empty() && result.errors.empty()));
  }
}

TEST_CASE("the first screen of plan fits 24 lines of 80 columns") {
  for (const char* line :
       {"plan --model 175b --gpus 1024", "plan --model gpt2 --gpus 8",
        "plan --model deepseek-v3 --gpus 2048 --tp 1,8 --micro-batch 1"}) {
    CAPTURE(std::string(line));
    const auto lines = lines_of(run_line(line, ".").output);
    CHECK(lines.size() <= 24);
    for (const std::string& shown : lines) {
      CAPTURE(shown);
      CHECK(shown.size() <= 80);
    }
  }
}

TEST_CASE("help leads with examples and fits 80 columns") {
  for (const char* command : {"plan", "memory", "simulate", "explain", "models",
                              "hardware", "validate", "version", "calibrate"}) {
    CAPTURE(std::string(command));
    const auto lines =
        lines_of(run_line(std::string(command) + " --help", ".").output);
    REQUIRE(lines.size() > 5);
    CHECK(lines[2].starts_with("  ztplan "));
    CHECK(lines[4].starts_with("  ztplan "));
    for (const std::string& shown : lines) {
      CAPTURE(shown);
      CHECK(shown.size() <= 80);
    }
  }
}

TEST_CASE("a plan file holds one plan and is never overwritten unasked") {
  const TemporaryDirectory here;
  const std::string plan = "plan --model gpt2 --gpus 8 -o plan.json";
  CHECK(run_line(plan, here.path()).exit_code == 0);
  const auto file = nlohmann::json::parse(content(here.file("plan.json")));
  CHECK(file.at("schema") == "ztplan.plan/1");
  CHECK(file.at("plans").size() == 1);
  CHECK(files_in(here.path()) == 1);

  here.write("plan.json", "mine");
  const CommandResult refused = run_line(plan, here.path());
  CHECK(refused.exit_code == 2);
  CHECK(refused.errors.find("--force") != std::string::npos);
  CHECK(content(here.file("plan.json")) == "mine");
  CHECK(run_line(plan + " --force", here.path()).exit_code == 0);
  CHECK(content(here.file("plan.json")) != "mine");
  CHECK(files_in(here.path()) == 1);
}

TEST_CASE("a file is written whole or not at all") {
  const TemporaryDirectory here;
  for (const char* target :
       {"/dev/null", ".", "no/such/folder/plan.json", "-", ""}) {
    CAPTURE(std::string(target));
    const CommandResult result = run_line(
        "plan --model gpt2 --gpus 8 --force -o '" + std::string(target) + "'",
        here.path());
    CHECK(result.exit_code == 2);
  }
  CHECK(files_in(here.path()) == 0);
  here.write("real.json", "old");
  ::symlink("real.json", here.file("link.json").c_str());
  CHECK(run_line("plan --model gpt2 --gpus 8 --force -o link.json", here.path())
            .exit_code == 0);
  CHECK(std::filesystem::is_symlink(here.file("link.json")));
  CHECK(content(here.file("real.json")) != "old");
}

TEST_CASE("a link that leads nowhere yet is written through") {
  const TemporaryDirectory here;
  const std::string line = "plan --model gpt2 --gpus 8 -o link.json";
  std::filesystem::create_directory(here.file("far"));
  ::symlink("far/real.json", here.file("link.json").c_str());
  CHECK(run_line(line, here.path()).exit_code == 0);
  CHECK(std::filesystem::is_symlink(here.file("link.json")));
  CHECK(std::filesystem::is_regular_file(here.file("far/real.json")));
  CHECK(run_line(line, here.path()).exit_code == 2);  // it is there now
  ::symlink("loop.json", here.file("loop.json").c_str());
  CHECK(run_line("plan --model gpt2 --gpus 8 -o loop.json", here.path())
            .exit_code == 2);
}

TEST_CASE("a file that is overwritten keeps its permissions") {
  const TemporaryDirectory here;
  const std::string path = here.write("plan.json", "old");
  using std::filesystem::perms;
  std::filesystem::permissions(path, perms::owner_read | perms::owner_write);
  CHECK(run_line("plan --model gpt2 --gpus 8 --force -o plan.json", here.path())
            .exit_code == 0);
  CHECK(std::filesystem::status(path).permissions() ==
        (perms::owner_read | perms::owner_write));
}

TEST_CASE("a file may have the longest name there is") {
  const TemporaryDirectory here;
  const std::string name = std::string(250, 'a') + ".json";
  CHECK(run_line("plan --model gpt2 --gpus 8 -o " + name, here.path())
            .exit_code == 0);
  CHECK(std::filesystem::exists(here.file(name)));
}

TEST_CASE("a trace is JSON with the tracks of every stage") {
  const TemporaryDirectory here;
  const CommandResult result = run_line(
      "simulate --model gpt2 --strategy dp=2,pp=2 --global-batch 16 --trace "
      "step.json",
      here.path());
  CHECK(result.exit_code == 0);
  CHECK(result.errors.find("ui.perfetto.dev") != std::string::npos);
  const auto trace = nlohmann::json::parse(content(here.file("step.json")));
  // 8 micro-batches forward and backward on each of two stages, and more.
  CHECK(trace.at("traceEvents").size() > 32);
}

TEST_CASE("a reader that leaves, or was never there, is no error") {
  const TemporaryDirectory here;
  const std::string plan = "\"$1\" models --json";
  CHECK(shell(plan + " | true; echo done", here.path()).output == "done\n");
  CHECK(shell(plan + " >&-; echo $?", here.path()).output == "0\n");
  CHECK(shell("\"$1\" plan --model gtp2 2>&-; echo $?", here.path()).output ==
        "2\n");
  if (std::filesystem::exists("/dev/full")) {
    CHECK(
        shell(plan + " >/dev/full 2>/dev/null; echo $?", here.path()).output ==
        "1\n");
  }
}

TEST_CASE("colors are for terminals, or when asked") {
  const std::string line = "memory --model gpt2 --strategy dp=8";
  CHECK(run_line(line, ".").output.find('\x1b') == std::string::npos);
  CHECK(run_line(line + " --color always", ".").output.find("\x1b[32mfits") !=
        std::string::npos);
  CHECK(run_line(line + " --color always --json", ".").output.find('\x1b') ==
        std::string::npos);
}

TEST_CASE("Ctrl-C ends with 130 and leaves no file") {
  const TemporaryDirectory here;
  const CommandResult result = shell(
      "\"$1\" plan --model 175b --gpus 4096 -o plan.json & p=$!; "
      "sleep 0.2; kill -INT $p; wait $p; echo $?",
      here.path());
  // A background job of sh ignores SIGINT unless the program sets a handler.
  const bool done = result.output.ends_with("\n0\n");
  CHECK((done || result.output == "130\n"));
  CHECK(files_in(here.path()) == (done ? 1 : 0));
}

TEST_CASE("a signal that ends it leaves no half a file") {
  struct Row {
    std::string signal, says;
  };
  for (const Row& row : {Row{"TERM", "143\n"}, Row{"HUP", "129\n"}}) {
    CAPTURE(row.signal);
    const TemporaryDirectory here;
    const CommandResult result = shell(
        "\"$1\" simulate --model gpt2 --strategy dp=2,pp=4 --global-batch "
        "200000 --trace step.json & p=$!; i=0; "
        "while [ -z \"$(ls -A)\" ] && [ $i -lt 3000 ]; "
        "do sleep 0.01; i=$((i+1)); done; kill -" +
            row.signal + " $p; wait $p; echo $?",
        here.path());
    CHECK(result.output == row.says);
    CHECK(files_in(here.path()) == 0);
  }
}

TEST_CASE("progress needs nothing of a terminal but a carriage return") {
  if (std::system("command -v script >/dev/null") != 0) return;
  const TemporaryDirectory here;
  const std::string seen =
      shell(
          "TERM=dumb script -qec \"'$1' plan --model deepseek-v3 --gpus 4096 "
          ">plan.txt\" /dev/null",
          here.path())
          .output;
  CHECK(seen.find(" strategies considered") != std::string::npos);
  CHECK(seen.find('\x1b') == std::string::npos);
}

TEST_CASE("the next command of plan is one that works") {
  const CommandResult plan = run_line("plan --model gpt2 --gpus 16", ".");
  const std::size_t at = plan.output.find("next      ztplan ");
  REQUIRE(at != std::string::npos);
  std::string next =
      plan.output.substr(at + std::string("next      ztplan ").size());
  for (std::size_t cut; (cut = next.find("\\\n")) != std::string::npos;) {
    next.replace(cut, 2, " ");
  }
  const TemporaryDirectory here;
  CHECK(run_line(next.substr(0, next.find('\n')), here.path()).exit_code == 0);
}
