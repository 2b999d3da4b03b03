#include "interop/kernel_runs.h"

#include <doctest/doctest.h>

#include "interop/interconnect.h"
#include "spec/catalog.h"
#include "time/price.h"

using namespace ztplan;

namespace {

RunResult product(const std::string& cells) {
  const CsvTable table = CsvTable::parse(
      "source,gpu,dtype,m,n,k,tflops,notes\nmine," + cells + "\n", "m.csv");
  return predict_products(table).at(0);
}

RunResult collective(const std::string& cells) {
  const CsvTable table = CsvTable::parse(
      "source,gpu,gpus,nodes,interconnect,collective,size_bytes,algbw_GBps,"
      "busbw_GBps,notes\nmine," +
          cells + "\n",
      "c.csv");
  return predict_collectives(table).at(0);
}

Seconds priced(const Work& work, const ClusterOverrides& machine, int gpus) {
  const ClusterSpec cluster = load_cluster("", gpus, machine);
  const Calibration calibration = published_calibration(cluster.device);
  return price(work, {cluster, calibration});
}

}  // namespace

TEST_CASE("a table is known by its columns") {
  const auto table = [](const char* header) {
    return CsvTable::parse(header, "t.csv");
  };
  CHECK(holds_products(table("source,gpu,dtype,m,n,k,tflops\n")));
  CHECK(!holds_products(table("id,model,gpu,gpus,measured_step_s\n")));
  CHECK(holds_collectives(table("gpu,gpus,collective,size_bytes\n")));
  CHECK(!holds_collectives(table("gpu,gpus,model\n")));
}

TEST_CASE("a product is compared in seconds, at the price of a step") {
  const RunResult run = product("H100-SXM-80GB,bf16,4096,8192,2048,600,");
  CHECK(run.source == "mine H100-SXM-80GB bf16");
  CHECK(run.measured_step->value ==
        doctest::Approx(2.0 * 4096 * 8192 * 2048 / 600e12));
  CHECK(*run.predicted_step ==
        priced(Matmul{4096, 8192, 2048}, {.gpu = "h100-sxm-80gb"}, 1));
}

TEST_CASE("a grouped product is one product after another") {
  const RunResult one = product("H100-SXM-80GB,bf16,512,4096,2048,600,");
  const RunResult eight = product(
      "H100-SXM-80GB,bf16,512,4096,2048,600,\"grouped GEMM, 8 groups of M "
      "rows\"");
  CHECK(eight.measured_step->value ==
        doctest::Approx(8 * one.measured_step->value));
  CHECK(eight.predicted_step->value ==
        doctest::Approx(8 * one.predicted_step->value));
  // A host launches each: eight of almost nothing take eight launches.
  const RunResult tiny = product(
      "H100-SXM-80GB,bf16,64,64,64,1,\"grouped GEMM, 8 groups of M rows\"");
  CHECK(tiny.predicted_step->value == doctest::Approx(8 * 8e-6));
}

TEST_CASE("a stage of backward is a product of its own shape") {
  const auto stage = [](const char* name) {
    return *product(std::string("H100-SXM-80GB,bf16,128,4096,7168,200,") +
                    "\"grouped GEMM, 2 groups of M rows, stage " + name + "\"")
                .predicted_step;
  };
  const ClusterOverrides h100{.gpu = "h100-sxm-80gb"};
  CHECK(stage("fwd") == 2 * priced(Matmul{128, 4096, 7168}, h100, 1));
  CHECK(stage("bwd_grad_act") == 2 * priced(Matmul{128, 7168, 4096}, h100, 1));
  CHECK(stage("bwd_grad_w") == 2 * priced(Matmul{4096, 7168, 128}, h100, 1));
}

TEST_CASE("an accumulated product reads what it adds to") {
  const auto seconds = [](const char* notes) {
    return product(std::string("A100-PCIe-80GB,bf16,4096,4096,8192,200,") +
                   notes)
        .predicted_step->value;
  };
  // 4 bytes of 4096 x 4096 at .8 of 1935 GB/s, or 2.
  const double pass = 4.0 * 4096 * 4096 / (0.8 * 1935e9);
  CHECK(seconds("accumulate=True; out fp32") - seconds("accumulate=False") ==
        doctest::Approx(pass));
  CHECK(seconds("accumulate=True; out bf16") - seconds("") ==
        doctest::Approx(pass / 2));
}

TEST_CASE("quantization that notes name is priced too") {
  const RunResult plain = product("H100-SXM-80GB,fp8,4096,4096,4096,900,");
  const RunResult quantized = product(
      "H100-SXM-80GB,fp8,4096,4096,4096,900,time may include activation "
      "quantisation");
  // The maximum of 4096 x 4096 numbers, then their bytes: 2 and 3 of each; two
  // launches of 2 us for the scale.
  const double elements = 4096.0 * 4096;
  const Seconds passes = priced(Stream{Bytes{std::llround(2 * elements)}},
                                {.gpu = "h100-sxm-80gb"}, 1) +
                         priced(Stream{Bytes{std::llround(3 * elements)}},
                                {.gpu = "h100-sxm-80gb"}, 1);
  CHECK((*quantized.predicted_step - *plain.predicted_step).value ==
        doctest::Approx(passes.value + 4e-6));
}

TEST_CASE("products back to back hold what a B200's power limit leaves") {
  const auto rate = [](const char* source) {
    const CsvTable table =
        CsvTable::parse(std::string("source,gpu,dtype,m,n,k,tflops,notes\n") +
                            source + ",B200-SXM,bf16,16384,8192,28672,1145,\n",
                        "m.csv");
    return 2.0 * 16384 * 8192 * 28672 /
           predict_products(table).at(0).predicted_step->value;
  };
  // Source: MooreThreads/SimuMax b200_bf16_ceperm.json: 1145 TFLOPS; its peer
  // ai-dynamo/aiconfigurator b200_sxm: 1410 to 1570 for products of its size.
  CHECK(rate("simumax") == doctest::Approx(1145e12).epsilon(0.05));
  CHECK(rate("aiconfigurator") == doctest::Approx(1490e12).epsilon(0.06));
}

TEST_CASE("a collective's time follows from its algorithm or bus rate") {
  const char* cells = "A100-SXM-80GB,8,1,NVLink3 NVSwitch,all_reduce,1e9,";
  const RunResult stated = collective(std::string(cells) + "125,,");
  CHECK(stated.measured_step->value == doctest::Approx(1e9 / 125e9));
  // Bus rate of an all-reduce: 2 * 7/8 of it.
  const RunResult bus = collective(std::string(cells) + ",218.75,");
  CHECK(bus.measured_step->value == doctest::Approx(1e9 / 125e9));
  CHECK(
      *stated.predicted_step ==
      priced(Collective{CollectiveOp::all_reduce, {8, 1}, Bytes{1'000'000'000}},
             {.gpu = "a100-sxm4-80gb"}, 8));
}

TEST_CASE("the interconnect names the network between nodes") {
  const auto across = [](const char* interconnect) {
    return collective(std::string("H100-SXM-80GB,16,2,\"") + interconnect +
                      "\",all_reduce,1048576,10,,")
        .predicted_step->value;
  };
  // 35 us a step of EFA v2, none of InfiniBand's.
  CHECK(across("EFA v2 3200 Gb/s per node (p5)") >
        across("CX7 400 Gb/s RDMA") + 35e-6);
}

TEST_CASE("words of a network are the ports of a node") {
  struct Row {
    const char *words, *network;
  };
  const Row rows[] = {
      {"NVLink3 inside, 4x100 Gb/s EFA per node (p4de)", "4xefa-v1"},
      {"NVLink4 inside, EFA v2 3200 Gb/s per node (p5)", "32xefa-v2"},
      {"NVLink5 inside, 8x50 GB/s EFA v4 per node", "8xefa-v4"},
      {"NVLink4 inside, EFA between nodes (p5en)", "16xefa-v3"},
      {"8x2x100 Gb/s RoCE per node", "8xroce-200"},
      {"8x400 Gb/s RoCE per node", "8xroce-400"},
      {"InfiniBand NDR", "8xib-ndr"},
      {"8x200 Gb/s InfiniBand", "8x200Gbps"},
      {"400 Gb/s per node", "400Gbps/node"},
      {"NVLink + CX7 400 Gb/s", "400Gbps/gpu"},
      {"two tin cans", ""}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.words));
    CHECK(network_of(row.words) == row.network);
  }
}

TEST_CASE("a collective that PyTorch issues alone takes a launch more") {
  const auto seconds = [](const char* notes) {
    return collective(
               std::string("H200-SXM,8,1,NVLink4,all_reduce,32768,,1.4,") +
               notes)
        .predicted_step->value;
  };
  CHECK(seconds("PyTorch all_reduce_bench") - seconds("nccl-tests") ==
        doctest::Approx(22e-6));
}

TEST_CASE("two of eight V100 have one link of six between them") {
  const auto step = [](const char* gpus) {
    return collective(std::string("V100-SXM2,") + gpus +
                      ",1,NVLink2 (8-GPU node),all_reduce,1073741824,20,,")
        .predicted_step->value;
  };
  // 22.55 and 134.51 GB/s of bus, VIA-Research/vTrain trace/v100.
  CHECK(step("2") == doctest::Approx(1073741824 / 22.55e9).epsilon(0.05));
  CHECK(step("8") ==
        doctest::Approx(1073741824 * 1.75 / 134.51e9).epsilon(0.05));
}

TEST_CASE("rows that cannot be priced say why") {
  struct Row {
    RunResult result;
    const char* why;
  };
  for (const Row& row :
       {Row{product("H100-SXM-80GB,int4,1,1,1,1,"), "its dtype is not known"},
        Row{product("H100-SXM-80GB,bf16,0,1,1,1,"), "m is not stated"},
        Row{product("H100-SXM-80GB,bf16,1,1,1,,"),
            "nothing comparable was measured"},
        Row{product("unnamed,bf16,1,1,1,1,"), "the GPU is not named"},
        Row{product("H100-SXM-80GB,bf16,4096,4096,4096,9999,"),
            "it is faster than the GPU's peak"},
        Row{collective("H100-SXM-80GB,8,1,,all_reduce,1e9,9999,,"),
            "it is faster than the GPU's links"},
        Row{collective("H100-SXM-80GB,8,1,,all_reduce,1e99,1,1.75,"),
            "size_bytes is absurd"},
        Row{collective("H100-SXM-80GB,8,1,,all_reduce,1048576,100,100,"),
            "its two bandwidths contradict each other"},
        Row{collective("H100-SXM-80GB,8,1,,moe_dispatch,1,1,1,"),
            "not a collective of NCCL's"},
        Row{collective("H100-SXM-80GB,8,1,,all_reduce,,1,1.75,"),
            "size_bytes is not stated"},
        Row{collective("H100-SXM-80GB,1,1,,all_reduce,64,1,1,"),
            "the number of GPUs is not stated"},
        Row{collective("H100-SXM-80GB,8,1,,all_reduce,64,0.01,,"),
            "its rate is rounded to one digit"}}) {
    CAPTURE(std::string(row.why));
    CHECK(row.result.skipped == row.why);
  }
}
