// One fact of a machine changed from the command line.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/quantity_text.h"
#include "spec/catalog.h"
#include "support/messages.h"

using namespace ztplan;

namespace {

ClusterSpec with(const std::string& name, const ClusterOverrides& overrides) {
  return load_cluster(name, 0, overrides);
}

/// The network of a node of `name` when it is `text`.
Level network(const std::string& name, const std::string& text) {
  return with(name, {.network = text}).levels.back();
}

Level intra(const std::string& name, const std::string& text) {
  return with(name, {.intra = text}).levels.front();
}

double gbs(const Level& level) { return level.bandwidth.value / 1e9; }

std::string refuse(const ClusterOverrides& overrides) {
  return refusal([&] { with("dgx-h100", overrides); });
}

}  // namespace

// dgx-h100: 8 GPUs, 8 ports of 400 Gb/s, 50 GB/s a GPU.
TEST_CASE("a network is given per node, per GPU, by ports or by name") {
  const struct {
    const char* text;
    double gbs;  // per GPU
    int ports;   // per node
  } rows[] = {
      {"25Gbps", 25.0 / 8 / 8, 1},
      {"25Gbps/node", 25.0 / 8 / 8, 1},
      {"400Gbps", 400.0 / 8 / 8, 1},
      {"800Gbps", 800.0 / 8 / 8, 2},
      {"3200Gbps", 50, 8},
      {"3.2Tbps", 50, 8},
      {"6400Gbps", 100, 8},
      {"400Gbps/gpu", 50, 8},
      {"400Gbps/device", 50, 8},
      {"50GB/s/gpu", 50, 8},
      {"8x400Gbps", 50, 8},
      {"4x200Gbps", 12.5, 4},
      {"ib-ndr", 50, 8},
      {"NDR", 50, 8},
      {"1xib-hdr", 25.0 / 8, 1},
      {"1x eth-25-tcp", 0, 0},  // a space does not belong there
      {"ib-hdr/node", 25.0 / 8, 1},
      {"ib-hdr/gpu", 25, 8},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    if (row.ports == 0) {
      CHECK(refuse({.network = row.text}) != "");
      continue;
    }
    const Level level = network("dgx-h100", row.text);
    CHECK(gbs(level) == doctest::Approx(row.gbs));
    CHECK(level.nics_per_node == row.ports);
    CHECK(level.trust == Trust::given);
  }
}

TEST_CASE("what was understood of a network is told") {
  CHECK(network("dgx-h100", "25Gbps").source ==
        "given: 25Gbps: 391 MB/s a device (1 port a node, 8 devices)");
  CHECK(network("dgx-h100", "400Gbps/gpu").source ==
        "given: 400Gbps/gpu: 50.0 GB/s a device (8 ports a node, 8 devices)");
}

TEST_CASE("a network given by name brings its transport, a rate does not") {
  CHECK(network("dgx-h100", "efa-v1").latency.value == doctest::Approx(75e-6));
  CHECK(network("dgx-h100", "efa-v1").achieved == 0.84);
  CHECK(network("aws-p4d.24xlarge", "800Gbps").latency.value ==
        doctest::Approx(75e-6));
}

TEST_CASE("more of a network is never less") {
  for (const char* machine : {"dgx-h100", "aws-p5.48xlarge", "gb200-nvl72",
                              "lambda-8x-a100-80", "ws-8x-rtx4090"}) {
    CAPTURE(machine);
    double before = 0;
    for (const int gbps :
         {1, 10, 25, 40, 100, 399, 400, 401, 1000, 3200, 6400, 25600}) {
      const double now = gbs(network(machine, std::to_string(gbps) + "Gbps"));
      CHECK(now > before);
      before = now;
    }
  }
}

TEST_CASE("a machine without a network is given one") {
  const ClusterSpec cluster =
      load_cluster("lambda-8x-a100-80", 32, {.network = "100Gbps"});
  CHECK(cluster.levels.size() == 2);
  CHECK(cluster.levels[1].fanout == 4);
  CHECK(gbs(cluster.levels[1]) == doctest::Approx(100.0 / 8 / 8));
  CHECK(refusal([] { with("cpu-test", {.network = "1Gbps"}); }) ==
        "--network: cpu-test has one host and no network");
}

TEST_CASE("levels further out keep their share of the network") {
  const ClusterSpec before = with("meta-llama3-roce", {});
  const ClusterSpec after =
      with("meta-llama3-roce", {.network = "800Gbps/gpu"});
  CHECK(gbs(after.levels[1]) == doctest::Approx(100));
  CHECK(gbs(after.levels[2]) == doctest::Approx(2 * gbs(before.levels[2])));
}

TEST_CASE("the links in a node are given by name or rate") {
  const struct {
    const char* machine;
    const char* text;
    double gbs;
    LinkKind kind;
    int fanout;
  } rows[] = {
      {"dgx-h100", "pcie4", 31.5, LinkKind::pcie, 8},
      {"dgx-h100", "pcie3", 15.75, LinkKind::pcie, 8},
      {"dgx-h100", "nvlink3", 300, LinkKind::nvlink, 8},
      {"dgx-h100", "nvlink4", 450, LinkKind::nvlink, 8},
      {"dgx-h100", "100GB/s", 100, LinkKind::nvlink, 8},
      {"dgx-h100", "xgmi-mi300x", 448, LinkKind::xgmi, 8},
      {"ws-8x-a6000", "nvlink4", 450, LinkKind::nvlink, 8},
      {"ws-8x-a6000", "60GB/s", 60, LinkKind::nvlink, 8},
      {"aws-g5.48xlarge", "nvlink3", 300, LinkKind::nvlink, 8},
      {"gb200-nvl72", "pcie5", 63, LinkKind::pcie, 4},
      {"gb200-nvl72", "nvlink4", 450, LinkKind::nvlink, 4},
  };
  for (const auto& row : rows) {
    CAPTURE(row.machine);
    CAPTURE(row.text);
    const ClusterSpec cluster = with(row.machine, {.intra = row.text});
    const Level& level = cluster.levels.front();
    CHECK(gbs(level) == doctest::Approx(row.gbs));
    CHECK(level.kind == row.kind);
    CHECK(level.fanout == row.fanout);
    CHECK(level.trust == Trust::given);
    CHECK(cluster.levels.size() == 2);
  }
}

TEST_CASE("a rack of NVLink keeps its reach, one of PCIe is nodes") {
  const auto rack = [](const char* link) {
    return load_cluster("gb200-nvl72", 144, {.intra = link}).levels;
  };
  CHECK(rack("nvlink4")[0].fanout == 72);
  CHECK(rack("600GB/s")[0].fanout == 72);
  CHECK(rack("pcie5")[0].fanout == 4);
  CHECK(rack("pcie5")[1].fanout == 36);
}

TEST_CASE("only switches reduce in the network") {
  CHECK(intra("dgx-a100-80", "nvlink4").in_network_reduction);
  CHECK_FALSE(intra("dgx-h100", "nvlink3").in_network_reduction);
  CHECK_FALSE(intra("dgx-h100", "pcie5").in_network_reduction);
  CHECK(intra("dgx-h100", "100GB/s").in_network_reduction);
}

// Source: nvbandwidth README: 18-19 GB/s each way when both directions run.
TEST_CASE("without peer access traffic goes through host memory") {
  const ClusterSpec off = with("dgx-a100-80", {.p2p = "off"});
  const ClusterSpec on = with("dgx-a100-80", {.p2p = "on"});
  CHECK(on.levels == with("dgx-a100-80", {}).levels);
  CHECK(off.levels[0].kind == LinkKind::pcie);
  CHECK(off.levels[0].trust == Trust::given);
  CHECK(off.levels[1] == on.levels[1]);
  for (const char* machine : {"dgx-a100-80", "dgx-h100", "dgx-b200"}) {
    CAPTURE(machine);
    const Level staged = with(machine, {.p2p = "off"}).levels[0];
    const Level direct = with(machine, {}).levels[0];
    CHECK(gbs(direct) * direct.achieved >= 10 * gbs(staged) * staged.achieved);
  }
  const Level gaming = with("ws-8x-rtx4090", {.p2p = "off"}).levels[0];
  CHECK(gbs(gaming) * gaming.achieved >= 10);  // "about 10-20 GB/s"
  CHECK(gbs(gaming) * gaming.achieved <= 20);
  CHECK(with("gb200-nvl72", {.p2p = "off"}).levels[0].fanout == 4);
}

TEST_CASE("host, drives and device memory are given") {
  CHECK(with("dgx-h100", {.host_memory = "1TiB"}).host.memory ==
        Bytes{1024 * kGiB});
  CHECK(with("dgx-h100", {.device_memory = "40GiB"}).device.memory ==
        Bytes{40 * kGiB});
  const HostSpec own = with("dgx-h100", {}).host;
  const HostSpec larger = with("dgx-h100", {.nvme = "60TB"}).host;
  CHECK(larger.nvme == parse_bytes("60TB"));
  CHECK(larger.nvme_read == own.nvme_read);
  const HostSpec rated = with("dgx-h100", {.nvme = "4TB@6GB/s"}).host;
  CHECK(rated.nvme == parse_bytes("4TB"));
  CHECK(rated.nvme_read == parse_rate("6GB/s"));
  CHECK(rated.nvme_write == parse_rate("6GB/s"));
  for (const char* none : {"0", "off", "none"}) {
    CHECK(with("dgx-h100", {.nvme = none}).host.nvme.value == 0);
  }
}

TEST_CASE("a device is put in place of a machine's own") {
  const ClusterSpec swapped = with("dgx-a100-80", {.gpu = "a100-40g"});
  CHECK(swapped.name == "dgx-a100-80");
  CHECK(swapped.device.id == "a100-sxm4-40gb");
  CHECK(with("", {.gpu = "a100-40g"}).name == "dgx-a100-40");
  CHECK(gbs(with("pcie5-server", {.gpu = "4090"}).levels[0]) == 31.5);
}

TEST_CASE("a node of one GPU needs a link to hold more") {
  const ClusterSpec pair =
      load_cluster("gh200", 4, {.intra = "nvlink4", .gpus_per_node = 2});
  CHECK(pair.levels.size() == 2);
  CHECK(pair.levels[0].fanout == 2);
  CHECK(pair.levels[1].fanout == 2);
}

TEST_CASE("what cannot be read is refused") {
  const std::pair<ClusterOverrides, const char*> rows[] = {
      {{.network = "fast"}, "no link for --network \"fast\""},
      {{.network = "25"}, "--network: \"25\": has no unit"},
      {{.network = "0Gbps"}, "--network 0Gbps: must be more than 0"},
      {{.network = "pcie4"}, "--network \"pcie4\": not a link of that kind"},
      {{.network = "8x400Gbps/gpu"},
       "--network \"8x400Gbps/gpu\": counts ports and says of whom"},
      {{.network = "8x"}, "no link for --network \"\""},
      {{.network = "/gpu"}, "no link for --network \"\""},
      {{.network = "nan"}, "no link for --network \"nan\""},
      {{.intra = "ib-ndr"}, "--intra \"ib-ndr\": not a link of that kind"},
      {{.intra = "nvme-gen4"},
       "--intra \"nvme-gen4\": not a link of that kind"},
      {{.intra = "pcie9"}, "no link for --intra \"pcie9\""},
      {{.intra = "-1GB/s"}, "no link for --intra \"-1GB/s\""},
      {{.p2p = "maybe"}, "--p2p \"maybe\""},
      {{.host_memory = "0GiB"}, "--host-memory 0GiB: must be more than 0"},
      {{.host_memory = "1"}, "--host-memory: \"1\": has no unit"},
      {{.nvme = "4TB@"}, "--nvme: \"\": does not start with a number"},
      {{.nvme = "4TB@0GB/s"}, "--nvme 0GB/s: must be more than 0"},
      {{.device_memory = "80"}, "--device-memory: \"80\": has no unit"},
      {{.gpu = "z80"}, "no device \"z80\""},
  };
  for (const auto& [overrides, message] : rows) {
    CHECK(refuse(overrides) == message);
  }
}
