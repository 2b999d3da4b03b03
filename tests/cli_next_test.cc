// "next" asks the question that was asked: run, it answers with the plan.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "support/answers.h"

using namespace ztplan;
using nlohmann::json;

namespace {

/// What follows "next" in the text of `plan`, as a shell joins it, without
/// "ztplan ".
std::string next_of(const std::string& text) {
  constexpr std::string_view kStart = "\nnext      ztplan ";
  const std::size_t start = text.find(kStart);
  REQUIRE(start != std::string::npos);
  std::string line = text.substr(start + kStart.size());
  for (std::size_t at = 0; (at = line.find("\\\n")) != std::string::npos;)
    line.erase(at, line.find_first_not_of(' ', at + 2) - at);
  return line.substr(0, line.find('\n'));
}

std::string without(std::string line, const std::string& words) {
  const std::size_t at = line.find(words);
  REQUIRE(at != std::string::npos);
  return line.erase(at, words.size());
}

/// A value for each flag that describes model, machine or training, where
/// another answer comes of it.
const std::map<std::string, std::string> kValues = {
    {"--model", "--model gpt2-medium"},
    {"--gpus", "--gpus 16"},
    {"--gpu", "--gpu a100-80g"},
    {"--cluster", "--cluster dgx-a100"},
    {"--gpus-per-node", "--gpus-per-node 4"},
    {"--nodes", "--gpus 8 --nodes 2"},
    {"--network", "--gpus 16 --network 10Gbps"},
    {"--intra", "--intra pcie4"},
    {"--p2p", "--p2p off"},
    {"--host-memory", "--host-memory 1TiB --offload cpu"},
    {"--calibration",
     "--calibration " ZTPLAN_SOURCE_DIR "/tests/fixtures/h100.json"},
    {"--nvme", "--nvme 4TB@1GB/s --offload nvme"},
    {"--engine", "--engine deepspeed"},
    {"--engine-version", "--engine-version torchtitan"},
    {"--seq", "--seq 512"},
    {"--global-batch", "--global-batch 64"},
    {"--tokens-per-batch", "--tokens-per-batch 128K"},
    {"--precision", "--precision fp16"},
    {"--grad-dtype", "--grad-dtype bf16"},
    {"--attention", "--attention eager"},
    {"--optimizer", "--engine deepspeed --optimizer lion"},
    {"--optimizer-dtype", "--optimizer adam8bit --optimizer-dtype bf16"},
    {"--param-dtype", "--engine fsdp --param-dtype fp32"},
    {"--lora", "--engine fsdp --lora r=8,targets=q,v"},
    {"--quantize", "--engine fsdp --lora r=8 --quantize nf4,double"},
    {"--loss", "--loss eager"},
    {"--load", "--engine deepspeed --zero 3 --load replicated"},
    {"--lengths", "--engine fsdp --lengths varied"},
    {"--expert-load", "--model mixtral-8x7b --gpus 64 --expert-load 1.5"},
    {"--slowest", "--slowest 0.95"},
    {"--objective", "--gpus 64 --objective gpus"},
};

/// `flags` after the usual ones, without those usual ones that they give.
std::string plan_line(const std::string& flags) {
  std::string line = "plan " + flags;
  if (flags.find("--model ") == std::string::npos) line += " --model gpt2";
  const bool counted = flags.find("--gpus ") != std::string::npos ||
                       flags.find("--nodes ") != std::string::npos;
  return counted ? line : line + " --gpus 8";
}

}  // namespace

TEST_CASE("every flag of model, machine and training has a value to try") {
  const std::string help = run_line("plan --help").output;
  const std::size_t start = help.find("\nModel\n");
  const std::size_t end = help.find("\nLimits of the search");
  REQUIRE(start < end);
  for (std::size_t at = start; (at = help.find("\n  --", at)) < end; ++at) {
    const std::string flag =
        help.substr(at + 3, help.find(' ', at + 3) - at - 3);
    CAPTURE(flag);
    CHECK(kValues.contains(flag));
  }
}

TEST_CASE("next simulates the best plan under the flags that were given") {
  for (const auto& [flag, given] : kValues) {
    const std::string line = plan_line(given);
    const std::string next =
        without(next_of(run_line(line).output), " --trace step.json");
    CAPTURE(line);
    CAPTURE(next);
    const json best = answer(line).at("plans").at(0);
    const json simulated = answer(next).at("plans").at(0);
    for (const char* key : {"engine", "gpus", "strategy", "time"})
      CHECK(simulated.at(key) == best.at(key));
    CHECK(simulated.at("memory").at("peak_bytes") ==
          best.at("memory").at("peak_bytes"));
  }
}

TEST_CASE("next searches on twice the GPUs within the limits that were given") {
  CHECK(next_of(run_line("plan --model 175b --gpus 8 --tp 8 --zero 0,1 "
                         "--offload none,cpu --recompute none --objective "
                         "memory --margin 5%")
                    .output) ==
        "plan --model 175b --gpus 16 --tp 8 --zero 0,1 --offload none,cpu "
        "--recompute none --objective memory --margin 0.05");
}
