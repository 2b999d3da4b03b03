// Problems of real users, from public issue threads and benchmark pages, and
// what a planner should have answered. Figures are those of the threads.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/answers.h"
#include "support/temporary_directory.h"

using namespace ztplan;
using nlohmann::json;

namespace {

constexpr double kMebi = 1024.0 * 1024, kGibi = 1024 * kMebi;

json plan_of(const std::string& line) {
  return run_json(line).data.at("plans")[0];
}

double peak(const std::string& line) {
  return plan_of(line).at("memory").at("peak_bytes").get<double>();
}

std::string all_text(const json& data) { return data.dump(); }

bool says(const json& data, const char* words) {
  return all_text(data).find(words) != std::string::npos;
}

}  // namespace

// dlrover, atorch/examples/llama2/README.md: drops of the allocated peak.
TEST_CASE("P01: FSDP's peak is that of a moment, 12 bytes a parameter") {
  const auto at = [](int gpus) {
    return peak(
               "memory --model llama2-7b --gpu a100-80g --engine fsdp "
               "--param-dtype fp32 --seq 4096 --strategy "
               "zero=3,recompute=full,micro=4 --gpus " +
               std::to_string(gpus) + " --global-batch " +
               std::to_string(4 * gpus)) /
           kMebi;
  };
  CHECK(at(8) - at(16) == doctest::Approx(4819.6).epsilon(0.01));
  CHECK(at(16) - at(32) == doctest::Approx(2409.9).epsilon(0.01));
  CHECK(at(32) - at(64) == doctest::Approx(1204.9).epsilon(0.01));
}

// deepspeedai/DeepSpeed#1302: differences of a sweep over bucket sizes.
TEST_CASE("P02: buckets outweigh what stage 2 saves") {
  const auto with = [](const char* tuning) {
    return peak(std::string("memory --model "
                            "gpt:layers=48,hidden=1664,heads=16,ffn=8192,"
                            "vocab=1000,seq=256 --gpus 4 --gpu v100-32g "
                            "--precision fp16 --attention eager --engine "
                            "deepspeed --global-batch 32 --strategy "
                            "zero=2,micro=8,") +
                tuning) /
           kMebi;
  };
  const double beside = with("overlap=1,bucket=5e8");
  CHECK(beside - with("overlap=0,bucket=5e8") ==
        doctest::Approx(953.7).epsilon(0.01));
  const double small = with("overlap=1,bucket=1e8");
  CHECK(beside - small == doctest::Approx(1525.9).epsilon(0.01));
  CHECK(small - with("overlap=1,bucket=1e7") ==
        doctest::Approx(343.3).epsilon(0.01));
}

// hpcaitech/ColossalAI#4537: one allocation of 32 GiB.
TEST_CASE("P03: eager attention makes one tensor of 32 GiB") {
  TemporaryDirectory here;
  const std::string log = here.write(
      "oom.log",
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate "
      "32.00 GiB (GPU 0; 79.20 GiB total capacity; 54.80 GiB already "
      "allocated; 20.00 GiB free; 56.00 GiB reserved in total by PyTorch)\n");
  const std::string question =
      " --model llama2-7b --gpus 8 --gpu a100-80g --seq 4096 --engine "
      "colossalai --strategy zero=3,recompute=full,micro=16 --global-batch 128";
  const Answer answer =
      run_json("diagnose " + log + question + " --attention eager");
  CHECK(answer.exit_code == 0);
  CHECK(answer.data.at("kind") == "device_oom");
  const json match = answer.data.at("matches").at(0);
  CHECK(match.at("name") == "attention scores");
  CHECK(match.at("bytes") == 34'359'738'368);
  CHECK(says(answer.data, "flash attention"));
  const json eager =
      plan_of("memory" + question + " --attention eager").at("memory");
  CHECK(eager.at("largest_tensor").at("bytes") == 34'359'738'368);
  CHECK(eager.at("fits") == false);
  CHECK(plan_of("memory" + question).at("memory").at("fits") == true);
}

// deepspeedai/DeepSpeed#3589, #823.
TEST_CASE("P04: ZeRO 2 and 3 do not run with DeepSpeed's pipeline") {
  const std::string check =
      "check --model gpt2-345m --gpus 4 --global-batch 16 --engine ";
  for (const char* zero : {"2", "3"}) {
    const Answer answer =
        run_json(check + "deepspeed --strategy tp=2,pp=2,zero=" + zero);
    CHECK(answer.exit_code == 4);
    CHECK(answer.data.at("misfits")[0].at("rule") == "zero-pipeline");
    CHECK(says(answer.data.at("misfits"), "DeepSpeed"));
  }
  for (const char* zero : {"0", "1"})
    CHECK(run_json(
              check +
              "deepspeed --grad-dtype bf16 --strategy tp=2,pp=2,zero=" + zero)
              .exit_code == 0);
  CHECK(run_json(check + "fsdp --strategy tp=2,pp=2,zero=3").exit_code == 0);
}

// OpenRLHF/OpenRLHF#346; bigcode-project/starcoder#41.
TEST_CASE("P05: a batch that seven GPUs cannot make") {
  TemporaryDirectory here;
  const std::string file = here.write(
      "ds_config.json",
      R"({"train_batch_size": 256, "train_micro_batch_size_per_gpu": 2})");
  const Answer answer = run_json("check " + file + " --gpus 7");
  CHECK(answer.exit_code == 4);
  CHECK(answer.data.at("verdict") == "illegal");
  CHECK(says(answer.data, "252 (accumulation 18)"));
  CHECK(says(answer.data, "266 (accumulation 19)"));
  CHECK(says(answer.data, "4 ranks (accumulation 32)"));
  const std::string alone = here.write(
      "alone.json", R"({"train_batch_size": 256, "gradient_accumulation_steps":
      8, "train_micro_batch_size_per_gpu": 1})");
  CHECK(says(run_json("check " + alone + " --gpus 32").data.at("verdict"),
             "legal"));
  CHECK(says(run_json("check " + alone + " --gpus 4").data, "batch-triangle"));
}

// hiyouga/LLaMA-Factory#3499: 20 minutes against 17 seconds.
TEST_CASE("P06: sharding frozen weights costs traffic, not memory") {
  const auto at = [](int zero, const char* p2p) {
    return plan_of(std::string("simulate --model llama3-8b --lora "
                               "r=8,targets=q,v --gpus 3 --gpu a100-80g "
                               "--seq 1024 --global-batch 6 --precision fp16 "
                               "--engine deepspeed ") +
                   p2p + " --strategy micro=1,zero=" + std::to_string(zero));
  };
  const json three = at(3, "--p2p off");
  const json two = at(2, "--p2p off");
  CHECK(three.at("traffic").at("data_bytes").get<double>() ==
        doctest::Approx(42.8e9).epsilon(0.05));
  CHECK(says(three.at("warnings"), "peer-to-peer is off"));
  CHECK(says(three.at("warnings"), "frozen weights are gathered"));
  CHECK(three.at("time").at("step_seconds").get<double>() >
        10 * two.at("time").at("step_seconds").get<double>());
  const json trained =
      run_json(
          "memory --model llama3-8b --lora r=8,targets=q,v "
          "--gpus 1 --seq 1024 --engine fsdp --grad-dtype fp32 "
          "--strategy micro=1 --global-batch 1")
          .data;
  // 3,407,872 adapters: fp32 gradients of them.
  CHECK(trained.at("plans")[0].at("memory").at("gradients_bytes") ==
        4 * 3'407'872);
}

// lm-sys/FastChat#9: shards inside a node rather than over two.
TEST_CASE("P07: hybrid sharding beats full sharding over a slow network") {
  const auto step = [](const char* strategy) {
    return plan_of(std::string("simulate --model llama-7b --nodes 2 "
                               "--gpus-per-node 4 --gpu a100-80g --network "
                               "40Gbps --engine fsdp --seq 2048 "
                               "--global-batch 8 --strategy recompute=full,"
                               "comm=bf16,zero=3") +
                   strategy);
  };
  const json full = step("");
  CHECK(full.at("traffic").at("data_bytes").get<double>() ==
        doctest::Approx(3 * 13.48e9 * 7 / 8).epsilon(0.05));
  CHECK(says(full.at("warnings"), "100 % utilisation"));
  CHECK(step(",shard=4").at("time").at("step_seconds").get<double>() <
        full.at("time").at("step_seconds").get<double>());
}

// databrickslabs/dolly#111: killed with -9 at 31 GiB of host memory.
TEST_CASE("P08: signal 9 is host memory") {
  const Answer answer = run_json(
      "check --model pythia-2.8b --gpus 1 --gpu rtx3090 --host-memory 32GB "
      "--engine deepspeed --global-batch 8 --strategy "
      "zero=3,offload=cpu+parameters");
  CHECK(answer.exit_code == 3);
  const json memory = answer.data.at("plans")[0].at("memory");
  const double host = memory.at("host_bytes").get<double>() / kGibi;
  CHECK(host > 36);
  CHECK(host < 52);
  CHECK(answer.data.at("shortage").at("tier") == "host");
  CHECK(memory.at("peak_bytes") < memory.at("capacity_bytes"));
  TemporaryDirectory here;
  const std::string log =
      here.write("train.log",
                 "[INFO] [launch.py] Process 7 exits with return code = -9\n");
  const Answer told = run_json("diagnose " + log);
  CHECK(told.data.at("kind") == "host_oom");
  CHECK(says(told.data, "RAM"));
  CHECK(says(told.data, "8-bit Adam"));
  CHECK(says(told.data, "LoRA"));
  const std::string of_a_plan = "diagnose " + log +
                                " --model llama2-7b --gpus 1 --seq 2048 "
                                "--engine deepspeed --strategy zero=3";
  const json away = run_json(of_a_plan + ",offload=cpu+parameters").data;
  REQUIRE(!away.at("remedies").empty());
  const double taken =
      away.at("plans")[0].at("memory").at("host_bytes").get<double>();
  for (const json& remedy : away.at("remedies")) {
    CAPTURE(remedy.dump());
    CHECK(remedy.at("host_bytes").get<double>() < taken);
  }
  const json here_alone = run_json(of_a_plan).data;
  CHECK(here_alone.at("remedies").empty());
  CHECK(says(here_alone, "keeps nothing on the hosts"));
}

// deepspeedai/DeepSpeedExamples#192: 80 GB of swap files a node.
TEST_CASE("P09: NVMe offload over a slow network stays below 5 % of peak") {
  const json plan = plan_of(
      "simulate --model gpt:h=4096,l=50,a=16,s=1024 --nodes 2 --gpus-per-node "
      "1 --gpu a100-pcie-40g --host-memory 120GiB --nvme 1TB@3GB/s --network "
      "1Gbps --engine deepspeed --global-batch 16 --strategy "
      "zero=3,offload=nvme,micro=8,recompute=full");
  CHECK(plan.at("memory").at("nvme_bytes").get<double>() ==
        doctest::Approx(82.2e9).epsilon(0.05));
  CHECK(plan.at("throughput").at("mfu") < 0.05);
  CHECK(says(plan.at("warnings"), "larger batch or accumulation"));
}

// THUDM/slime#2253: logits of a packed sequence.
TEST_CASE("P10: logits of a large vocabulary are the largest tensor") {
  const auto largest = [](int sequence, int tensor) {
    const std::string s = std::to_string(sequence), t = std::to_string(tensor);
    return plan_of(
               "memory --model gpt:layers=4,hidden=2048,heads=16,"
               "vocab=248320,seq=" +
               s + " --engine megatron --global-batch 1 --gpus " + t +
               " --strategy tp=" + t)
               .at("memory")
               .at("largest_tensor")
               .at("bytes")
               .get<double>() /
           kGibi;
  };
  CHECK(largest(11600, 1) == doctest::Approx(10.73).epsilon(0.01));
  CHECK(largest(32768, 1) == doctest::Approx(30.3).epsilon(0.01));
  CHECK(largest(32768, 8) == doctest::Approx(30.3 / 8).epsilon(0.01));
}

// NVIDIA/Megatron-LM#1304.
TEST_CASE("P11: thirty layers on four stages are refused") {
  TemporaryDirectory here;
  const std::string file =
      here.write("args.sh",
                 "ARGS=(--num-layers 30 --hidden-size 1024 "
                 "--num-attention-heads 16 --seq-length 1024 "
                 "--micro-batch-size 1 --pipeline-model-parallel-size 4 "
                 "--bf16)\n");
  const Answer answer = run_json("check " + file + " --gpus 4");
  CHECK(answer.exit_code == 4);
  CHECK(says(answer.data.at("misfits"), "7-8-8-7"));
  CHECK(says(answer.data.at("misfits"), "1, 2, 3, 5, 6, 10, 15"));
}

// NVIDIA/Megatron-LM#1237.
TEST_CASE("P13: fp8 costs memory unless it is the primary weight") {
  const auto states = [](const char* numbers) {
    const json memory =
        plan_of(std::string("memory --model 7b --gpus 8 --gpu h100 --engine "
                            "megatron --global-batch 8 --strategy zero=1 ") +
                numbers)
            .at("memory");
    double sum = 0;
    for (const char* term : {"parameters_bytes", "gradients_bytes",
                             "optimizer_bytes", "buffers_bytes"})
      sum += memory.at(term).get<double>();
    return sum / 6.738e9;
  };
  const double bf16 = states("--precision bf16");
  const double fp8 = states("--precision fp8");
  CHECK(fp8 >= bf16);
  CHECK(fp8 <= bf16 + 2);
  CHECK(states("--precision fp8 --param-dtype fp8") < bf16);
}

// hiyouga/LLaMA-Factory#3880; InternLM/xtuner#88.
TEST_CASE("P14: ZeRO 3 does not shard quantized weights, FSDP does") {
  const auto on = [](const char* engine) {
    return plan_of(std::string("memory --model llama3-70b --quantize "
                               "nf4,double --lora r=8 --gpus 8 --gpu t4 --seq "
                               "2048 --global-batch 8 --strategy "
                               "zero=3,recompute=full --engine ") +
                   engine)
        .at("memory");
  };
  const json deepspeed = on("deepspeed"), fsdp = on("fsdp");
  CHECK(deepspeed.at("fits") == false);
  const double whole = deepspeed.at("parameters_bytes").get<double>() / kGibi;
  CHECK(whole > 33);
  CHECK(whole < 37);
  const double cut = fsdp.at("parameters_bytes").get<double>() / kGibi;
  CHECK(cut > 4.2);
  CHECK(cut < 4.7);
  CHECK(fsdp.at("peak_bytes").get<double>() < 15 * kGibi);
}

// pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md.
TEST_CASE("P15: FSDP on 8 and on 128 GPUs") {
  const auto at = [](int gpus, const char* precision) {
    return plan_of(
        "simulate --model llama3.1-8b --gpu h100-96g --engine fsdp "
        "--seq 8192 --strategy zero=3,recompute=selective,micro=2 "
        "--gpus " +
        std::to_string(gpus) + " --global-batch " + std::to_string(2 * gpus) +
        " --precision " + precision);
  };
  const auto memory = [](const json& plan) {
    return plan.at("memory").at("peak_bytes").get<double>() / kGibi;
  };
  const auto speed = [](const json& plan) {
    return plan.at("throughput").at("tokens_per_second_per_gpu").get<double>();
  };
  const json few = at(8, "bf16"), many = at(128, "bf16"), fp8 = at(8, "fp8");
  CHECK(memory(few) - memory(many) > 14);
  CHECK(memory(few) - memory(many) < 16);
  CHECK(memory(few) == doctest::Approx(82.4).epsilon(0.1));
  CHECK(std::abs(memory(fp8) - memory(few)) < 1);
  CHECK(1 - speed(many) / speed(few) < 0.08);
  CHECK(speed(fp8) / speed(few) > 1.15);
  CHECK(speed(fp8) / speed(few) < 1.45);
}

// alibaba/Pai-Megatron-Patch#658: four layouts, seconds a step.
TEST_CASE("P16: Qwen3 235B on 256 GPUs takes what was measured, within 30 %") {
  struct Row {
    const char* strategy;
    int batch;
    double seconds;
  };
  for (const Row& row :
       {Row{"tp=1,micro=4,recompute=full", 4096, 42.537},
        Row{"tp=2,sp=1,micro=4,recompute=full", 4096, 43.495},
        Row{"tp=2,sp=1,micro=1,recompute=selective", 2048, 22.42},
        Row{"tp=1,micro=1,recompute=selective:norms+activation", 2048,
            22.946}}) {
    CAPTURE(std::string(row.strategy));
    const json plan =
        plan_of(std::string("simulate --model qwen3-235b-a22b --gpus 256 --gpu "
                            "h800 --engine megatron --seq 4096 --strategy "
                            "ep=8,pp=32,vpp=3,zero=1,stages=ends,") +
                row.strategy + " --global-batch " + std::to_string(row.batch));
    CHECK(plan.at("time").at("step_seconds").get<double>() ==
          doctest::Approx(row.seconds).epsilon(0.3));
    CHECK(says(plan.at("warnings"), "balanced"));
  }
}

// InternLM/InternLM#22.
TEST_CASE("P17: PCIe halves the throughput of a 7B") {
  const auto on = [](const char* machine) {
    return plan_of(std::string("simulate --model internlm-7b --gpu a100-80g "
                               "--seq 2048 --engine native --strategy "
                               "zero=1,micro=2 ") +
                   machine);
  };
  const json nvlink = on("--gpus 8 --global-batch 64");
  const json pcie =
      on("--gpus 16 --global-batch 128 --intra pcie4 --network 200Gbps");
  const auto speed = [](const json& plan) {
    return plan.at("throughput").at("tokens_per_second_per_gpu").get<double>();
  };
  CHECK(speed(pcie) / speed(nvlink) > 0.35);
  CHECK(speed(pcie) / speed(nvlink) < 0.65);
  CHECK(says(pcie.at("warnings"), "accumulation"));
  CHECK(pcie.at("time").at("data_comm_seconds").get<double>() >
        0.4 * pcie.at("time").at("step_seconds").get<double>());
}

// deepspeedai/DeepSpeed#1378.
TEST_CASE("P18: the end stages are the heavy ones") {
  const json memory =
      plan_of(
          "memory --model gpt:h=4096,l=24,v=50304 --gpus 24 --engine "
          "deepspeed --grad-dtype bf16 --global-batch 96 --strategy pp=24")
          .at("memory");
  const json& stages = memory.at("stages");
  REQUIRE(stages.size() == 24);
  const double middle = stages[12].at("parameters_bytes").get<double>();
  CHECK(stages[23].at("parameters_bytes").get<double>() / middle ==
        doctest::Approx(2.02).epsilon(0.02));
  CHECK((memory.at("peak_stage") == 0 || memory.at("peak_stage") == 23));
}

// EleutherAI/gpt-neox#965.
TEST_CASE("P19: ZeRO 2 reduces gradients in every micro-batch") {
  const auto at = [](int zero) {
    return plan_of(
        "simulate --model gpt:h=5120,l=38 --gpus 32 --gpu a100-40g "
        "--engine deepspeed --global-batch 256 --strategy "
        "micro=1,recompute=full,zero=" +
        std::to_string(zero));
  };
  const json one = at(1), two = at(2);
  CHECK(two.at("traffic").at("gradient_bytes").get<std::int64_t>() ==
        8 * one.at("traffic").at("gradient_bytes").get<std::int64_t>());
  CHECK(one.at("time").at("step_seconds").get<double>() <
        two.at("time").at("step_seconds").get<double>());
}

// InternLM/xtuner#842.
TEST_CASE("P20: 70B needs three nodes of eight, or its optimizer on hosts") {
  const json card = run_json(
                        "gpus --model llama3-70b --gpu a100-80g --engine "
                        "deepspeed --seq 2048 --strategy zero=3,recompute=full")
                        .data.at("cards")[0];
  CHECK(card.at("below").at("gpus") == 16);
  CHECK(card.at("below").at("state_bytes").get<double>() / kGibi ==
        doctest::Approx(65.7).epsilon(0.02));
  CHECK(card.at("comfortable").at("gpus") == 24);
  CHECK(card.at("offloaded").at("optimizer_bytes_on_hosts").get<double>() ==
        doctest::Approx(847e9).epsilon(0.05));
  const Answer wide = run_json(
      "check --model llama3-70b --gpus 32 --gpu a100-80g --engine "
      "deepspeed --seq 2048 --global-batch 32 --strategy "
      "zero=3,recompute=full");
  CHECK(wide.exit_code == 0);
  CHECK(wide.data.at("verdict") == "fits");
}
