// ztplan run: what it prints, what it leaves, and how it ends.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "support/answers.h"
#include "support/run_command.h"
#include "support/temporary_directory.h"

using namespace ztplan;
using nlohmann::json;

namespace {

const std::string kAsked =
    "run --model gpt:layers=2,hidden=32,heads=2,vocab=256 --seq 32 "
    "--global-batch 4 --precision fp32 --warmup 0 ";

/// A text that can be learnt.
std::string text() {
  std::string all;
  for (int i = 0; i < 400; ++i)
    all += fmt::format("line {} of a small text, and no more;\n", i);
  return all;
}

/// Lines of JSON: steps, then the end.
struct Run {
  int exit_code = 0;
  std::vector<json> steps;
  json end;
  std::string errors;
};

Run run(const TemporaryDirectory& here, const std::string& words) {
  const CommandResult result =
      run_command(shell_words(std::string(ZTPLAN_BINARY) + " " + kAsked +
                              words + " --json"),
                  here.path());
  Run ran{result.exit_code, {}, {}, result.errors};
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) {
    const json value = json::parse(line);
    if (value.contains("step"))
      ran.steps.push_back(value);
    else
      ran.end = value;
  }
  return ran;
}

}  // namespace

TEST_CASE("run trains, and measures the bytes that were planned") {
  TemporaryDirectory here;
  here.write("text.txt", text());
  const Run ran = run(here,
                      "--strategy tp=2,pp=2,dp=2,sp=1,zero=1 --data text.txt "
                      "--steps 12 --learning-rate 3e-3");
  CHECK(ran.exit_code == 0);
  REQUIRE(ran.steps.size() == 12);
  CHECK(ran.steps[0].at("step") == 1);
  CHECK_FALSE(ran.steps[0].contains("balance_loss"));  // no experts
  // Near the entropy of 256 equal bytes at first, well below it soon.
  CHECK(ran.steps[0].at("loss").get<double>() ==
        doctest::Approx(5.55).epsilon(0.02));
  CHECK(ran.steps[11].at("loss").get<double>() < 4.5);
  CHECK(ran.end.at("schema") == "ztplan.run/1");
  for (const char* side : {"memory", "traffic"})
    for (const auto& item : ran.end.at("predicted").at(side).items()) {
      const std::string& key = item.key();
      CAPTURE(key);
      const bool counted = key != "gradient_bytes" && key != "host_bytes";
      if (counted)
        CHECK(ran.end.at("measured").at(side).at(key) == item.value());
    }
  CHECK(ran.end.at("measured").at("time").at("step_seconds") > 0);
}

TEST_CASE("run goes on from a checkpoint as if it had not stopped") {
  TemporaryDirectory here;
  here.write("text.txt", text());
  const std::string same =
      "--strategy dp=2,zero=2,recompute=full --data text.txt --steps 6 ";
  const Run whole = run(here, same);
  CHECK(run(here, same + "--checkpoint saved --save-every 2 --keep 9")
            .exit_code == 0);
  for (const char* later : {"step-000006", "step-000004"})
    std::filesystem::remove_all(here.file(std::string("saved/") + later));
  const Run rest = run(here, same + "--checkpoint saved --resume");
  CHECK(rest.end.at("resumed_from") == 2);
  REQUIRE(rest.steps.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(rest.steps[i].at("loss") == whole.steps[i + 2].at("loss"));
    CHECK(rest.steps[i].at("gradient_norm") ==
          whole.steps[i + 2].at("gradient_norm"));
  }
}

TEST_CASE("run goes on in another layout") {
  TemporaryDirectory here;
  here.write("text.txt", text());
  const Run whole = run(here, "--strategy dp=1 --data text.txt --steps 5");
  CHECK(run(here,
            "--strategy tp=2,pp=2,dp=1,sp=1 --data text.txt --steps 5 "
            "--checkpoint saved --save-every 3 --keep 9")
            .exit_code == 0);
  std::filesystem::remove_all(here.file("saved/step-000005"));
  const Run rest = run(here,
                       "--strategy dp=4,zero=3 --data text.txt --steps 5 "
                       "--checkpoint saved --resume");
  REQUIRE(rest.steps.size() == 2);
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(rest.steps[i].at("loss").get<double>() ==
          doctest::Approx(whole.steps[i + 3].at("loss").get<double>())
              .epsilon(1e-5));
}

TEST_CASE("run leaves a checkpoint and 130 when it is interrupted") {
  TemporaryDirectory here;
  here.write("text.txt", text());
  const CommandResult result = interrupt_command(
      shell_words(std::string(ZTPLAN_BINARY) + " " + kAsked +
                  "--strategy dp=2 --data text.txt --steps 1000000 "
                  "--checkpoint saved --json"),
      here.path(), "\"step\":");
  CHECK(result.exit_code == 130);
  CHECK(result.output.find("\"interrupted\":true") != std::string::npos);
  const Run rest = run(here,
                       "--strategy dp=2 --data text.txt --steps 1 "
                       "--checkpoint saved --resume");
  CHECK(rest.exit_code == 0);
  CHECK(rest.errors.find("nothing to do") != std::string::npos);
}

TEST_CASE("run takes and leaves weights by Hugging Face's names") {
  TemporaryDirectory here;
  here.write("text.txt", text());
  const std::string data = " --data text.txt --steps ";
  CHECK(
      run(here, "--strategy tp=2,pp=2,dp=1,sp=1 --save-weights a.safetensors" +
                    data + "3")
          .exit_code == 0);
  // A step of no size leaves them as they were, whatever the layout.
  const std::string still =
      " --learning-rate 0 --weights a.safetensors" + data + "1";
  const Run one = run(here, "--strategy dp=1" + still);
  const Run other =
      run(here, "--strategy dp=4,zero=3 --save-weights b.safetensors" + still);
  CHECK(one.steps.at(0).at("loss").get<double>() < 5.5);
  CHECK(
      other.steps.at(0).at("loss").get<double>() ==
      doctest::Approx(one.steps.at(0).at("loss").get<double>()).epsilon(1e-6));
  CHECK(read_file(here.file("a.safetensors"), Bytes{16 * kMiB}) ==
        read_file(here.file("b.safetensors"), Bytes{16 * kMiB}));
}

TEST_CASE("run learns byte pairs and keeps them") {
  TemporaryDirectory here;
  here.write("text.txt", text());
  const std::string line =
      std::string(ZTPLAN_BINARY) +
      " run --model "
      "llama:layers=1,hidden=32,heads=2,kv_heads=1,ffn=64,vocab=300"
      " --seq 16 --global-batch 2 --strategy dp=1 --data text.txt --steps 2"
      " --tokenizer pairs.txt --json";
  const CommandResult first = run_command(shell_words(line), here.path());
  CHECK(first.exit_code == 0);
  CHECK(std::filesystem::exists(here.file("pairs.txt")));
  const auto losses = [](const CommandResult& result) {
    std::vector<double> all;
    std::istringstream lines(result.output);
    for (std::string each; std::getline(lines, each);)
      if (const json value = json::parse(each); value.contains("step"))
        all.push_back(value.at("loss").get<double>());
    return all;
  };
  CHECK(losses(run_command(shell_words(line), here.path())) == losses(first));
}

TEST_CASE("run says what it cannot do, and leaves nothing behind") {
  struct Row {
    std::string words;
    int exit_code;
    std::string says;
  };
  TemporaryDirectory here;
  here.write("text.txt", text());
  here.write("short.txt", "abc");
  for (const Row& row : {
           Row{"--strategy dp=1", 2, "train on what"},
           Row{"--strategy dp=1 --data none.txt", 2, "none.txt"},
           Row{"--strategy dp=1 --data short.txt", 2, "short"},
           Row{"--strategy dp=3 --data text.txt", 4, "batch"},
           Row{"--strategy dp=1 --data text.txt --device tpu", 2, "tpu"},
           Row{"--strategy dp=1 --data text.txt --steps 0", 2, "--steps"},
           Row{"--strategy dp=1 --data text.txt --resume", 2, "--checkpoint"},
           Row{"--strategy dp=1 --data text.txt --steps 2 --warmup 3", 2,
               "--warmup"},
           Row{"--strategy dp=1 --data text.txt --tolerance 1%", 6, ""},
       }) {
    CAPTURE(row.words);
    const CommandResult result = run_command(
        shell_words(std::string(ZTPLAN_BINARY) + " " + kAsked + row.words),
        here.path());
    CHECK(result.exit_code == row.exit_code);
    CHECK(result.errors.find(row.says) != std::string::npos);
  }
}

TEST_CASE("run writes a trace of what its stages did") {
  TemporaryDirectory here;
  here.write("text.txt", text());
  CHECK(
      run(here, "--strategy pp=2,dp=1 --data text.txt --steps 2 --trace t.json")
          .exit_code == 0);
  const json trace =
      json::parse(read_file(here.file("t.json"), Bytes{16 * kMiB}));
  CHECK(trace.at("traceEvents").size() > 20);
}

TEST_CASE("run tells how evenly experts are chosen") {
  TemporaryDirectory here;
  here.write("text.txt", text());
  const std::string words =
      "run --model llama:layers=2,hidden=32,heads=2,ffn=24,experts=4,top_k=2,"
      "vocab=256 --seq 32 --global-batch 4 --precision fp32 --data text.txt "
      "--steps 2 --strategy dp=2 --format ";
  const auto print = [&](const std::string& format) {
    return run_command(
               shell_words(std::string(ZTPLAN_BINARY) + " " + words + format),
               here.path())
        .output;
  };
  std::istringstream lines(print("json"));
  for (int i = 0; i < 2; ++i) {
    std::string line;
    std::getline(lines, line);
    const double balance = json::parse(line).at("balance_loss");
    CHECK(balance > 0.9);
    CHECK(balance < 2);  // experts over choices: all on the same two
  }
  CHECK(print("table").find("  balance 1.0") != std::string::npos);
}
