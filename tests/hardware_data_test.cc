// Every file of hardware/, and figures of its sources against each other.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "base/quantity_text.h"
#include "spec/catalog.h"
#include "spec/hardware_folder.h"
#include "support/messages.h"

using namespace ztplan;

namespace {

DeviceFile device(const std::string& name) { return find_device(name); }

DeviceSpec spec(const std::string& name) { return device(name).device; }

ClusterSpec node(const std::string& name) { return load_cluster(name, 0, {}); }

const Level& level(const ClusterSpec& cluster, const std::string& name) {
  const auto found =
      std::find_if(cluster.levels.begin(), cluster.levels.end(),
                   [&](const Level& each) { return each.name == name; });
  REQUIRE(found != cluster.levels.end());
  return *found;
}

/// The names that are given twice.
std::vector<std::string> repeated(const std::vector<std::string>& names) {
  std::set<std::string> seen;
  std::vector<std::string> twice;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) twice.push_back(name);
  }
  return twice;
}

void add_names(std::vector<std::string>& names, const std::string& id,
               const std::vector<std::string>& aliases) {
  names.push_back(id);
  names.insert(names.end(), aliases.begin(), aliases.end());
}

}  // namespace

TEST_CASE("every file of hardware/ loads, and says where it is from") {
  CHECK(all_devices().size() >= 38);
  CHECK(all_nodes().size() >= 55);
  CHECK(all_networks().size() >= 33);
  CHECK(all_clusters().size() >= 2);
  for (const DeviceSpec& each : all_devices()) {
    CAPTURE(each.id);
    CHECK_FALSE(each.source.empty());
  }
  for (const ClusterSpec& each : all_nodes()) {
    CAPTURE(each.name);
    CHECK_FALSE(each.source.empty());
    for (const Level& link : each.levels) CHECK_FALSE(link.source.empty());
  }
}

TEST_CASE("a file is named as its id") {
  for (const std::string& id : hardware_ids(HardwareFolder::devices)) {
    CHECK(spec(id).id == id);
  }
  for (const std::string& id : hardware_ids(HardwareFolder::networks)) {
    CHECK(find_network(id).id == id);
  }
  for (const auto folder : {HardwareFolder::nodes, HardwareFolder::clusters}) {
    for (const std::string& id : hardware_ids(folder)) {
      CHECK(parse_machine(load_hardware(folder, id)).id == id);
    }
  }
}

TEST_CASE("no two things share a name") {
  std::vector<std::string> machines, links;
  for (const DeviceSpec& each : all_devices()) {
    add_names(machines, each.id, each.aliases);
  }
  for (const ClusterSpec& each : all_nodes()) {
    add_names(machines, each.name, each.aliases);
  }
  for (const ClusterSpec& each : all_clusters()) {
    add_names(machines, each.name, each.aliases);
  }
  for (const NetworkSpec& each : all_networks()) {
    add_names(links, each.id, each.aliases);
  }
  CHECK(repeated(machines).empty());
  CHECK(repeated(links).empty());
}

TEST_CASE("the names people type") {
  const struct {
    const char* typed;
    const char* device;
    const char* machine;
  } rows[] = {
      {"h100", "h100-sxm-80gb", "dgx-h100"},
      {"H100-SXM", "h100-sxm-80gb", "dgx-h100"},
      {"h100-96g", "h100-sxm-96gb", "dgx-h100"},
      {"a100-80g", "a100-sxm4-80gb", "dgx-a100-80"},
      {"a100-40g", "a100-sxm4-40gb", "dgx-a100-40"},
      {"a100-pcie-40g", "a100-pcie-40gb", "pcie4-server"},
      {"v100", "v100-sxm2-32gb", "dgx1-v100"},
      {"v100-16g", "v100-sxm2-16gb", "dgx1-v100"},
      {"t4", "t4-16gb", "aws-g4dn.metal"},
      {"4090", "rtx-4090-24gb", "ws-8x-rtx4090"},
      {"rtx3090", "rtx-3090-24gb", "ws-2x-rtx3090"},
      {"b200", "b200-sxm-180gb", "dgx-b200"},
      {"h200", "h200-sxm-141gb", "dgx-h200"},
      {"gb200", "gb200", "gb200-nvl72"},
      {"nvl72", "gb200", "gb200-nvl72"},
      {"p4d", "a100-sxm4-40gb", "aws-p4d.24xlarge"},
      {"Standard_ND96isr_H100_v5", "h100-sxm-80gb", "azure-nd96isr-h100-v5"},
      {"mi300x", "mi300x", "mi300x-node"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.typed);
    const ClusterSpec cluster = node(row.typed);
    CHECK(cluster.device.id == row.device);
    CHECK(cluster.name == row.machine);
  }
}

TEST_CASE("every device has a node to sit in, no faster than its PCIe link") {
  for (const std::string& id : hardware_ids(HardwareFolder::devices)) {
    CAPTURE(id);
    const ClusterSpec cluster = load_cluster("", 0, {.gpu = id});
    CHECK(cluster.device.id == id);
    for (const Level& each : cluster.levels) {
      if (each.kind != LinkKind::pcie) continue;
      CHECK(each.bandwidth.value <= device(id).pcie.value);
    }
  }
}

// Peak of the tensor cores: SMs x cores x FMAs a clock x 2 x clock.
// Source: NVIDIA A100 and H100 architecture whitepapers.
TEST_CASE("peak rates follow from the chip") {
  const struct {
    const char* name;
    int sm_count, cores, fma;
    double clock_ghz;
  } rows[] = {{"a100", 108, 4, 256, 1.41}, {"h100", 132, 4, 512, 1.83}};
  for (const auto& row : rows) {
    CAPTURE(row.name);
    const DeviceSpec chip = spec(row.name);
    CHECK(chip.sm_count == row.sm_count);
    const double peak =
        row.sm_count * row.cores * row.fma * 2 * row.clock_ghz * 1e9;
    CHECK(chip.bf16.value == doctest::Approx(peak).epsilon(0.001));
  }
}

// Source: NVIDIA datasheets: 25 GB/s a link and direction for NVLink 2 to 4,
// 14.0625 for the bridges of GA102 cards, 50 for NVLink 5; AMD: 50 and 64.
TEST_CASE("a device's links add up") {
  const struct {
    const char* name;
    double link;  // GB/s
  } rows[] = {{"v100", 25},      {"a100", 25},      {"a800", 25},
              {"h100", 25},      {"h800", 25},      {"h20", 25},
              {"h100-pcie", 25}, {"h200", 25},      {"gh200", 25},
              {"a40", 14.0625},  {"3090", 14.0625}, {"a6000", 14.0625},
              {"b200", 50},      {"b300", 50},      {"gb200", 50},
              {"gb300", 50},     {"mi250x", 50},    {"mi300x", 64}};
  for (const auto& row : rows) {
    CAPTURE(row.name);
    const DeviceFile file = device(row.name);
    CHECK(file.scale_up.value ==
          doctest::Approx(file.scale_up_links * row.link * 1e9));
  }
}

TEST_CASE("precision costs speed, and memory what the driver leaves") {
  for (const DeviceSpec& each : all_devices()) {
    CAPTURE(each.id);
    if (each.bf16.value > 0) CHECK(each.bf16 == each.fp16);
    if (each.fp8.value > 0) CHECK(each.fp8 >= each.bf16 * 2 * 0.98);
    if (each.fp4.value > 0) CHECK(each.fp4 > each.fp8);
    CHECK(each.matmul_achieved <= std::max(each.bf16, each.fp32));
  }
}

// Source: total_memory of torch in public logs; an "80 GB" card has about
// 79.1 GiB, not 80.
TEST_CASE("usable memory is what the framework reports") {
  CHECK(gib(spec("a100-80g").memory) == doctest::Approx(79.15));
  CHECK(gib(spec("h100").memory) == doctest::Approx(79.19));
  CHECK(gib(spec("a100-40g").memory) == doctest::Approx(39.39));
  CHECK(gib(spec("t4").memory) == doctest::Approx(14.75));
  CHECK(gib(spec("4090").memory) == doctest::Approx(23.64));
  CHECK(gib(spec("mi250x").memory) == doctest::Approx(63.98));
}

TEST_CASE("what Volta and Turing lack") {
  for (const char* name : {"v100", "t4"}) {
    CHECK(spec(name).bf16.value == 0);
    CHECK(spec(name).tf32.value == 0);
    CHECK(spec(name).fp16.value > 0);
  }
}

// Source: data sheets and instance pages, network of a whole node in Gb/s.
TEST_CASE("the network of a node is its ports together") {
  const struct {
    const char* name;
    double gbps;
    int nics;
  } rows[] = {{"dgx1-v100", 400, 4},          {"dgx-a100-80", 1600, 8},
              {"dgx-h100", 3200, 8},          {"dgx-b300", 6400, 8},
              {"gb200-nvl72", 1600, 4},       {"aws-p3dn.24xlarge", 100, 1},
              {"aws-p4de.24xlarge", 400, 4},  {"aws-p5.48xlarge", 3200, 32},
              {"gcp-a3-megagpu-8g", 1600, 8}, {"azure-nc96ads-a100-v4", 80, 1},
              {"mi250x-node", 800, 4},        {"ws-8x-rtx4090", 100, 1}};
  for (const auto& row : rows) {
    CAPTURE(row.name);
    const ClusterSpec cluster = node(row.name);
    const Level& network = level(cluster, "network");
    CHECK(network.nics_per_node == row.nics);
    CHECK(network.bandwidth.value * cluster.devices_per_node ==
          doctest::Approx(row.gbps * 1e9 / 8));
  }
}

TEST_CASE("a level is no faster than the links of its device") {
  for (const ClusterSpec& each : all_nodes()) {
    CAPTURE(each.name);
    const DeviceFile file = device(each.device.id);
    for (const Level& link : each.levels) {
      const bool scale_up =
          link.kind == LinkKind::nvlink || link.kind == LinkKind::xgmi;
      if (!scale_up) continue;
      CHECK(link.bandwidth.value <= file.scale_up.value * 1.0001);
    }
  }
}

// Source: NCCL 2.28.9: NVLink SHARP needs NVSwitch and Hopper or newer.
TEST_CASE("only switches of Hopper and newer reduce in the network") {
  CHECK(level(node("dgx-h100"), "nvlink").in_network_reduction);
  CHECK(level(node("dgx-b200"), "nvlink").in_network_reduction);
  CHECK_FALSE(level(node("dgx-a100-80"), "nvlink").in_network_reduction);
  CHECK_FALSE(level(node("dgx1-v100"), "nvlink").in_network_reduction);
  CHECK_FALSE(level(node("h100-nvl"), "nvlink").in_network_reduction);
  CHECK_FALSE(level(node("mi300x"), "xgmi").in_network_reduction);
}

// Source: aws-ofi-nccl platform-aws.cpp (75 us on p4d, 150 on p3dn); built-in
// InfiniBand transport of NCCL: 0.
TEST_CASE("a transport adds its own latency") {
  CHECK(level(node("dgx-h100"), "network").latency.value == 0);
  CHECK(level(node("aws-p4d.24xlarge"), "network").latency.value ==
        doctest::Approx(75e-6));
  CHECK(level(node("aws-p3dn.24xlarge"), "network").latency.value ==
        doctest::Approx(150e-6));
}

TEST_CASE("a host link that is shared is halved") {
  CHECK(node("dgx-a100-80").host.device_link == parse_rate("15.75GB/s"));
  CHECK(node("dgx-h100").host.device_link == parse_rate("63GB/s"));
  CHECK(node("gb200-nvl72").host.device_link == parse_rate("225GB/s"));
  CHECK(node("rtx-5060ti").host.device_link == parse_rate("31.5GB/s"));
}

TEST_CASE("drives of a node work together") {
  const HostSpec host = node("dgx-a100-80").host;
  CHECK(host.nvme == parse_bytes("30.7TB"));
  CHECK(host.nvme_read == parse_rate("54GB/s"));
  CHECK(host.nvme_write == parse_rate("42GB/s"));
}

TEST_CASE("an unknown machine gets the nearest name") {
  CHECK(refusal([] { load_cluster("dgx-h10", 8, {}); }) ==
        "no cluster, node or GPU \"dgx-h10\"");
  CHECK(hint_of([] { load_cluster("dgx-h10", 8, {}); }) ==
        "did you mean dgx-h100? `ztplan hardware` lists them");
  CHECK(hint_of([] {
          load_cluster("", 8, {.gpu = "a100-80gg"});
        }).starts_with("did you mean a100-80g"));
  CHECK(refusal([] { load_cluster("../nodes/dgx-h100", 8, {}); }) != "");
  CHECK(refusal([] { load_cluster("zzzzzzzz", 8, {}); }) != "");
}
