// What compare, gpus, diagnose, emit and plan --why-not answer.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/answers.h"
#include "support/temporary_directory.h"

using namespace ztplan;
using nlohmann::json;

namespace {

json difference(const json& data, const char* term) {
  for (const json& each : data.at("differences"))
    if (each.at("term") == term) return each;
  return nullptr;
}

}  // namespace

TEST_CASE("compare sets two strategies beside each other") {
  const json data =
      answer("compare zero=0 zero=1 --model gpt2 --gpus 8 --global-batch 64");
  CHECK(data.at("schema") == "ztplan.compare/1");
  const json states = difference(data, "optimizer");
  // A shard of the states on each of eight GPUs, up to its padding.
  CHECK(states.at("a").get<double>() / states.at("b").get<double>() ==
        doctest::Approx(8).epsilon(0.001));
  CHECK(difference(data, "parameters").at("a") ==
        difference(data, "parameters").at("b"));
  const json& plans = data.at("plans");
  CHECK(difference(data, "step").at("b") ==
        plans[1].at("time").at("step_seconds"));
}

TEST_CASE("compare --vs changes the machine or the numbers of one side") {
  const json link = answer(
      "compare zero=3 --vs intra=pcie4 --model llama3-8b --gpus 8 --seq 2048 "
      "--global-batch 64");
  CHECK(difference(link, "step").at("b") > difference(link, "step").at("a"));
  CHECK(difference(link, "peak").at("a").get<double>() ==
        doctest::Approx(difference(link, "peak").at("b").get<double>())
            .epsilon(0.02));
  const json cut = answer(
      "compare tp=2,sp=1 --vs tp=4 --model llama3-8b --gpus 8 --seq 2048 "
      "--global-batch 64");
  CHECK(cut.at("plans")[1].at("strategy").at("tp") == 4);
}

TEST_CASE("gpus counts upwards and bills the tokens") {
  const json card = answer(
                        "gpus --model llama3-8b --gpu h100 --engine deepspeed "
                        "--seq 2048 --strategy zero=3,recompute=full --tokens "
                        "1B --price 2")
                        .at("cards")[0];
  const json& fewest = card.at("fewest");
  CHECK(card.at("below").at("gpus") < fewest.at("gpus"));
  const double speed =
      fewest.at("plan").at("throughput").at("tokens_per_second").get<double>();
  const double days = fewest.at("days").get<double>();
  CHECK(days == doctest::Approx(1e9 / speed / 86400));
  CHECK(fewest.at("cost_usd").get<double>() ==
        doctest::Approx(days * 24 * 2 * fewest.at("gpus").get<double>()));
  CHECK(run_line("gpus --model gpt:params=9000B --gpu t4 --engine deepspeed "
                 "--strategy zero=0 --gpus 64")
            .exit_code == 3);
}

TEST_CASE("plan --why-not tells slower from illegal and too big") {
  const json reasons =
      answer(
          "plan --model llama3-8b --gpus 8 --seq 2048 --global-batch 64 "
          "--zero 1,3 --why-not 'tp=8,sp=1;tp=3;zero=0,micro=32'")
          .at("why_not");
  REQUIRE(reasons.size() == 3);
  CHECK(reasons[0].at("verdict") == "slower");
  CHECK(reasons[1].at("verdict") == "illegal");
  CHECK(reasons[2].at("verdict") != "best");
  for (const json& each : reasons) CHECK(!each.at("reason").empty());
}

// THUDM/slime#2253.
TEST_CASE("diagnose names the logits of a packed sequence") {
  TemporaryDirectory here;
  const std::string log = here.write(
      "oom.log",
      "    loss = F.cross_entropy(logits.float(), labels)\n"
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 10.73 "
      "GiB. GPU 0 has a total capacity of 79.10 GiB of which 3.20 GiB is free. "
      "Of the allocated memory 60.10 GiB is allocated by PyTorch, and 12.00 "
      "GiB is reserved by PyTorch but unallocated.\n");
  const json data = answer(
      "diagnose " + log +
      " --model gpt:layers=4,hidden=2048,heads=16,vocab=248320,seq=11600 "
      "--engine deepspeed --gpus 1 --strategy micro=1");
  CHECK(data.at("matches")[0].at("name") == "logits in fp32");
  CHECK(data.at("matches")[0].at("bytes") == 11'522'048'000);
  CHECK(data.at("capacity_bytes").get<double>() ==
        doctest::Approx(79.10 * 1024 * 1024 * 1024));
  const std::string text = data.at("advice").dump();
  CHECK(text.find("chunked or fused cross-entropy") != std::string::npos);
  CHECK(text.find("expandable_segments") != std::string::npos);
  CHECK(data.at("remedies").size() == 3);
}

TEST_CASE("emit writes all files or none, and never over others") {
  TemporaryDirectory here;
  const std::string folder = here.file("run");
  const std::string line =
      "emit --model gpt2 --gpus 8 --engine megatron --strategy zero=1 "
      "--global-batch 64 --target megatron --launcher mpirun -o " +
      folder;
  REQUIRE(run_line(line).exit_code == 0);
  for (const char* name : {"args.sh", "launch.sh", "hostfile", "README.md"})
    CHECK(std::filesystem::exists(folder + "/" + name));
  std::filesystem::remove(folder + "/args.sh");
  CHECK(run_line(line).exit_code == 2);
  CHECK_FALSE(std::filesystem::exists(folder + "/args.sh"));
  CHECK(run_line(line + " --force").exit_code == 0);
  CHECK(run_line("emit --model gpt2 --gpus 8 --engine deepspeed --strategy "
                 "pp=2,zero=3 --target deepspeed -o " +
                 here.file("none"))
            .exit_code == 4);
  CHECK_FALSE(std::filesystem::exists(here.file("none")));
}

// deepspeedai/DeepSpeed deepspeed/launcher/launch.py: RANK of a process that is
// alone on its host is the host's, and it sees one GPU.
TEST_CASE("DeepSpeed starts accelerate once a host, with all its GPUs") {
  TemporaryDirectory here;
  REQUIRE(run_line("emit --model llama3-8b --gpus 16 --strategy zero=3 "
                   "--target accelerate --launcher deepspeed -o " +
                   here.file("run"))
              .exit_code == 0);
  const auto program = [&](const std::string& name, const std::string& body) {
    here.write(name, "#!/bin/bash\n" + body);
    std::filesystem::permissions(here.file(name),
                                 std::filesystem::perms::owner_all);
  };
  program("deepspeed",
          "while [[ $1 != --no_local_rank ]]; do shift; done; shift\n"
          "export RANK=1 MASTER_ADDR=first CUDA_VISIBLE_DEVICES=0\n"
          "exec \"$@\"\n");
  program("accelerate", "echo \"$* ${CUDA_VISIBLE_DEVICES-all}\"\n");
  const CommandResult result =
      run_command({"/usr/bin/env", "PATH=" + here.file("") + ":/usr/bin:/bin",
                   "bash", "launch.sh", "--lr", "1"},
                  here.file("run"));
  CHECK(result.output ==
        "launch --config_file accelerate.yaml --num_machines 2 --num_processes "
        "16 --machine_rank 1 --main_process_ip first --main_process_port 29500 "
        "train.py --lr 1 all\n");
}

TEST_CASE("a step of too many passes is priced, but not walked") {
  const std::string line =
      "simulate --model gpt2 --gpus 8 --strategy pp=2 --global-batch 10000000";
  const json long_step = answer(line);
  CHECK(long_step.at("stages").empty());
  CHECK(long_step.at("plans")[0].at("time").at("step_seconds") > 0);
  CHECK(run_line(line).output.find("too many passes") != std::string::npos);
  const TemporaryDirectory here;
  const CommandResult traced = run_line(line + " --trace t.json", here.path());
  CHECK(traced.exit_code == 2);
  CHECK(traced.errors.find("leave out --trace") != std::string::npos);
}

TEST_CASE(
    "a stage that trains nothing, and a host without drives, are priced") {
  CHECK(run_line("memory --model gpt2 --gpus 8 --lora r=1 --engine deepspeed "
                 "--strategy "
                 "pp=2,stages=0-12 --global-batch 8")
            .exit_code == 0);
  CHECK(run_line(
            "memory --model llama3-8b --gpus 16 --nvme off --engine deepspeed "
            "--seq 2048 --global-batch 16 --strategy zero=3,offload=cpu")
            .exit_code == 0);
}

TEST_CASE("a plan for fewer GPUs than were asked for can be emitted") {
  const TemporaryDirectory here;
  const std::string file = here.file("few.json");
  const json data = answer(
      "plan --model gpt2 --gpus 16 --global-batch 64 --engine deepspeed "
      "--objective gpus --top 1 -o " +
      file);
  const json& first = data.at("plans")[0];
  REQUIRE(first.at("gpus").get<int>() < 16);
  CHECK(run_line("emit " + file + " --target deepspeed -o " + here.file("out"))
            .exit_code == 0);
}

TEST_CASE("emit refuses what contradicts its plan or its target") {
  const TemporaryDirectory here;
  const std::string plan = here.file("plan.json");
  answer("plan --model gpt2 --gpus 8 --global-batch 64 --top 1 -o " + plan);
  const std::string out = " -o " + here.file("out");
  const auto refused = [](const std::string& line, std::string_view words) {
    const CommandResult result = run_line(line);
    CAPTURE(line);
    CAPTURE(result.errors);
    CHECK(result.exit_code == 2);
    CHECK(result.errors.find(words) != std::string::npos);
  };
  refused("emit " + plan + " --engine fsdp --target megatron" + out,
          "\"fsdp\" contradicts --target megatron");
  refused("emit " + plan + " --engine nobody --target megatron" + out,
          "nobody");
  refused(
      "emit --model gpt2 --gpus 8 --strategy zero=1 --engine-version "
      "torchtitan --target megatron" +
          out,
      "\"torchtitan\" contradicts");
  refused("emit " + plan + " --seq 512 --target megatron" + out,
          "--seq asks another question");
  CHECK(run_line("emit " + plan + " --engine megatron --target megatron" + out)
            .exit_code == 0);
  CHECK(run_line("emit --model gpt2 --gpus 8 --strategy zero=3 --engine fsdp "
                 "--target accelerate -o " +
                 here.file("two"))
            .exit_code == 0);
}

TEST_CASE("a recomputed module that is named is the one that is meant") {
  const std::string line =
      "memory --model gpt2 --gpus 8 --engine fsdp --strategy zero=3,recompute=";
  CHECK(answer(line + "selective").at("plans")[0].at("strategy").at("text") ==
        answer(line + "selective:op").at("plans")[0].at("strategy").at("text"));
  const std::string grid = "zero=3,recompute=selective";
  const std::string question = " --model gpt2 --gpus 8 --seq 1024 ";
  for (const char* other :
       {"memory --engine-version torchtitan --strategy {0} {1}",
        "check --engine fsdp --strategy {0} {1}",
        "compare --engine fsdp zero=3 {0} {1}",
        "gpus --engine fsdp --strategy {0} --model gpt2 --gpu h100"}) {
    CAPTURE(other);
    CHECK(
        run_line(fmt::format(fmt::runtime(other), grid, question)).exit_code ==
        0);
  }
  const json reasons = answer("plan --engine fsdp --zero 3 --why-not " + grid +
                              question + "--global-batch 64")
                           .at("why_not");
  CHECK(reasons[0].at("verdict") != "illegal");
  const TemporaryDirectory here;
  CHECK(run_line("emit --target torchtitan" + question + "--strategy " + grid +
                 " -o " + here.file("out"))
            .exit_code == 0);
  // The attention core alone is not torchtitan's to recompute.
  CHECK(run_line(line + "selective:attention").exit_code == 4);
}

TEST_CASE("a plan for fewer GPUs is judged on their hosts") {
  // Eight copies would not fit into the host of a node; one does.
  const std::string model = " --model 70b --engine deepspeed --load replicated";
  const json asked = answer("plan --gpus 64 --objective gpus --top 1" + model);
  const json& few = asked.at("plans")[0];
  REQUIRE(few.at("gpus").get<int>() < 8);
  CHECK(asked.at("verdict") != "does not fit");
  CHECK(few.at("memory").at("fits") == true);
  const json alone =
      answer("memory --global-batch " +
             asked.at("workload").at("global_batch").dump() + model +
             " --strategy " + few.at("strategy").at("text").get<std::string>());
  CHECK(few.at("memory") == alone.at("plans")[0].at("memory"));
}

TEST_CASE("least cost is told in GPU-seconds") {
  const CommandResult told = run_line(
      "plan --model 7b --gpus 64 --objective cost --top 2 --zero 2 --tp 1");
  CHECK(told.output.find(" GPU-seconds a step against ") != std::string::npos);
}

TEST_CASE("compare tells a large change in times, not in percent") {
  const std::string told =
      run_line("compare tp=8 zero=3 --model llama3-8b --gpus 8").output;
  CHECK(told.find("over 1000 times") != std::string::npos);
  CHECK(told.find("000%") == std::string::npos);
}

TEST_CASE("remedies free memory") {
  const TemporaryDirectory here;
  const std::string log = here.write(
      "oom.log",
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. "
      "GPU 0 has a total capacity of 79.15 GiB of which 1.10 GiB is free. "
      "Including non-PyTorch memory, this process has 78.04 GiB memory in use. "
      "Of the allocated memory 75.20 GiB is allocated by PyTorch.\n");
  const json data = answer("diagnose " + log +
                           " --model llama3-8b --gpus 8 --strategy zero=2");
  const auto peak = [](const json& plan) {
    return plan.at("memory").at("peak_bytes").get<double>();
  };
  REQUIRE(!data.at("remedies").empty());
  for (const json& remedy : data.at("remedies"))
    CHECK(remedy.at("peak_bytes").get<double>() <
          0.99 * peak(data.at("plans")[0]));
  // A long line is cut between words, and says so.
  CHECK(data.at("line").get<std::string>().ends_with(" ..."));
}

TEST_CASE("memory --over-time writes its curve as CSV too") {
  const std::string told =
      run_line("memory --model gpt2 --strategy dp=1 --over-time --format csv")
          .output;
  CHECK(told.starts_with("stage,seconds,phase,bytes\n0,"));
}

TEST_CASE("a strategy that is legal nowhere is illegal, not too big") {
  const Answer told = run_json(
      "gpus --model gpt2 --gpu h100 --engine megatron --strategy tp=5");
  CHECK(told.exit_code == 4);
}

TEST_CASE("CSV holds exact numbers, as JSON does") {
  const std::string sides = "compare tp=2 zero=3 --model gpt2 --gpus 2";
  const std::string line = fmt::format(
      "\npeak,bytes,{},", difference(answer(sides), "peak").at("a").dump());
  const std::string compared = run_line(sides + " --format csv").output;
  CHECK(compared.starts_with("term,unit,a,b\n"));
  CHECK(compared.find(line) != std::string::npos);
  const std::string count = "gpus --model gpt2 --gpu h100 --engine deepspeed";
  const json plan = answer(count).at("cards")[0].at("fewest").at("plan");
  const std::string counted = run_line(count + " --format csv").output;
  CHECK(counted.find("," + plan.at("memory").at("peak_bytes").dump() + ",") !=
        std::string::npos);
}
