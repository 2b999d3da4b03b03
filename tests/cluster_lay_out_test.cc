// A machine cut to a number of GPUs.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "base/quantity_text.h"
#include "spec/catalog.h"
#include "support/messages.h"
#include "support/temporary_directory.h"

using namespace ztplan;

namespace {

/// "nvlink 8, network 2".
std::string shape(const ClusterSpec& cluster) {
  std::string out;
  for (const Level& level : cluster.levels) {
    if (!out.empty()) out += ", ";
    out += level.name + " " + std::to_string(level.fanout);
  }
  return out;
}

ClusterSpec lay(const std::string& name, int devices) {
  return load_cluster(name, devices, {});
}

ClusterSpec lay(const std::string& name, int devices, int nodes,
                int gpus_per_node) {
  ClusterOverrides overrides;
  overrides.nodes = nodes;
  overrides.gpus_per_node = gpus_per_node;
  return load_cluster(name, devices, overrides);
}

std::string refuse(const std::string& name, int devices) {
  return refusal([&] { lay(name, devices); });
}

std::string hint(const std::string& name, int devices) {
  return hint_of([&] { lay(name, devices); });
}

/// The example of hardware/README.md.
std::string documented_machine() {
  const std::string readme = read_file(
      std::string(ZTPLAN_SOURCE_DIR) + "/hardware/README.md", Bytes{kMiB});
  const std::string fence = "```json\n";
  const std::size_t start = readme.find(fence) + fence.size();
  return readme.substr(start, readme.find("```", start) - start);
}

}  // namespace

TEST_CASE("GPUs fill nodes, nodes fill the network") {
  const struct {
    const char* name;
    int devices;
    const char* shape;
    int per_node;
  } rows[] = {
      {"dgx-h100", 1, "nvlink 1, network 1", 1},
      {"dgx-h100", 7, "nvlink 7, network 1", 7},
      {"dgx-h100", 8, "nvlink 8, network 1", 8},
      {"dgx-h100", 24, "nvlink 8, network 3", 8},
      {"dgx-h100", 1024, "nvlink 8, network 128", 8},
      {"dgx-h100", 10'000'000, "nvlink 8, network 1250000", 8},
      {"", 16, "nvlink 8, network 2", 8},
      // pairs inside a node
      {"ws-8x-a6000", 8, "nvlink 2, pcie 4, network 1", 8},
      {"ws-8x-a6000", 16, "nvlink 2, pcie 4, network 2", 8},
      {"ws-8x-a6000", 6, "nvlink 2, pcie 3, network 1", 6},
      {"ws-8x-a6000", 3, "nvlink 1, pcie 3, network 1", 3},
      {"ws-8x-a6000", 5, "nvlink 1, pcie 5, network 1", 5},
      // a scale-up domain of several nodes
      {"gb200-nvl72", 3, "nvlink 3, network 1", 3},
      {"gb200-nvl72", 4, "nvlink 4, network 1", 4},
      {"gb200-nvl72", 72, "nvlink 72, network 1", 4},
      {"gb200-nvl72", 144, "nvlink 72, network 2", 4},
      {"gb200-nvl72", 256, "nvlink 64, network 4", 4},
      {"gb200-nvl72", 404, "nvlink 4, network 101", 4},
      // one GPU a node
      {"gh200", 5, "network 5", 1},
      // ranks of one host
      {"cpu-test", 4, "memory 4", 4},
      // whole clusters
      {"meta-llama3-roce", 0, "nvlink 8, pod 384, spine 8", 8},
      {"meta-llama3-roce", 16384, "nvlink 8, pod 256, spine 8", 8},
      {"meta-llama3-roce", 3072, "nvlink 8, pod 384, spine 1", 8},
      {"meta-llama3-roce", 8 * 389, "nvlink 8, pod 1, spine 389", 8},
  };
  for (const auto& row : rows) {
    CAPTURE(row.name);
    CAPTURE(row.devices);
    const ClusterSpec cluster = lay(row.name, row.devices);
    CHECK(shape(cluster) == row.shape);
    CHECK(cluster.devices_per_node == row.per_node);
    CHECK_NOTHROW(validate(cluster));
  }
}

TEST_CASE("without a count a machine is one node") {
  CHECK(lay("dgx-h100", 0).devices == 8);
  CHECK(lay("gb200-nvl72", 0).devices == 4);
  CHECK(lay("lambda-8x-a100-80", 0).devices == 8);
  CHECK(lay("cpu-test", 0).devices == 1);
}

TEST_CASE("every machine holds together at every count that it takes") {
  for (const ClusterSpec& node : all_nodes()) {
    const int per_node = node.devices_per_node;
    const bool joins_nodes = node.levels.back().kind == LinkKind::network;
    for (int devices = 1; devices <= 5 * per_node; ++devices) {
      CAPTURE(node.name);
      CAPTURE(devices);
      if (devices > per_node && (devices % per_node != 0 || !joins_nodes)) {
        continue;
      }
      const ClusterSpec cluster = lay(node.name, devices);
      CHECK_NOTHROW(validate(cluster));
      CHECK(cluster.devices == devices);
    }
  }
}

TEST_CASE("counts that no machine takes are refused with the nearest") {
  CHECK(refuse("dgx-h100", 12) ==
        "12 GPUs do not fill the 8-GPU nodes of dgx-h100");
  CHECK(hint("dgx-h100", 12) == "take 8 or 16, or set --gpus-per-node");
  CHECK(refuse("dgx-h100", -1) == "-1 GPUs");
  CHECK(refuse("dgx-h100", 1'000'000'000) == "1000000000 GPUs");
  CHECK(hint("dgx-h100", 1'000'000'000) ==
        "at most 10000000 can be planned for");
  CHECK(refuse("lambda-8x-a100-80", 16) ==
        "16 GPUs: lambda-8x-a100-80 joins at most 8");
  CHECK(refuse("meta-llama3-roce", 32768) ==
        "32768 GPUs: meta-llama3-roce joins at most 24576");
}

TEST_CASE("nodes and GPUs a node can be given instead") {
  CHECK(shape(lay("dgx-h100", 0, 4, 0)) == "nvlink 8, network 4");
  CHECK(shape(lay("dgx-h100", 0, 2, 4)) == "nvlink 4, network 2");
  CHECK(shape(lay("dgx-h100", 12, 0, 4)) == "nvlink 4, network 3");
  CHECK(shape(lay("dgx-h100", 12, 0, 6)) == "nvlink 6, network 2");
  CHECK(shape(lay("dgx-h100", 8, 2, 0)) == "nvlink 4, network 2");
  CHECK(shape(lay("dgx-h100", 2, 2, 1)) == "nvlink 1, network 2");
  CHECK(shape(lay("dgx-h100", 32, 0, 16)) == "nvlink 16, network 2");
  CHECK(shape(lay("ws-8x-a6000", 9, 0, 3)) == "nvlink 1, pcie 3, network 3");
  CHECK(shape(lay("ws-8x-a6000", 12, 0, 3)) == "nvlink 1, pcie 3, network 4");
  CHECK(shape(lay("ws-8x-a6000", 12, 0, 4)) == "nvlink 2, pcie 2, network 3");
}

TEST_CASE("nodes, GPUs and GPUs a node that disagree are refused") {
  CHECK(refusal([] { lay("dgx-h100", 9, 2, 0); }) ==
        "9 GPUs do not divide over 2 nodes");
  CHECK(refusal([] { lay("dgx-h100", 16, 2, 4); }) ==
        "16 GPUs are not 2 nodes of 4");
  CHECK(refusal([] { lay("dgx-h100", 16, 1, 0); }) ==
        "16 GPUs a node: a node of dgx-h100 has 8");
  CHECK(refusal([] { lay("dgx-h100", 0, -1, 0); }) == "-1 nodes");
  CHECK(refusal([] { lay("dgx-h100", 0, 2'000'000'000, 0); }) ==
        "2000000000 nodes of 8 GPUs");
  CHECK(refusal([] { lay("dgx-h100", 8, 0, -2); }) == "--gpus-per-node -2");
  CHECK(refusal([] { lay("dgx-h100", 8, 0, 5000); }) == "--gpus-per-node 5000");
  CHECK(refusal([] { lay("gh200", 8, 0, 4); }) ==
        "--gpus-per-node 4: nodes of gh200-node have one GPU and no link "
        "between several");
}

TEST_CASE("a part of a node keeps its links and its host") {
  const ClusterSpec part = lay("mi300x-node", 4);
  const ClusterSpec whole = lay("mi300x-node", 8);
  CHECK(part.levels[0].fanout == 4);
  CHECK(part.levels[0].capacity == 8);
  CHECK(part.host == whole.host);
  CHECK(part.levels[0].bandwidth == whole.levels[0].bandwidth);
}

TEST_CASE("NICs go with the GPUs, at least one to a node") {
  const ClusterSpec half = lay("dgx-h100", 8, 0, 4);
  CHECK(half.levels[1].nics_per_node == 4);
  CHECK(half.levels[1].bandwidth == parse_rate("400Gbps"));
  const ClusterSpec one = lay("ws-8x-rtx4090", 2, 0, 1);
  CHECK(one.levels[1].nics_per_node == 1);
  CHECK(one.levels[1].bandwidth == parse_rate("100Gbps"));
  CHECK(one.host.memory == lay("ws-8x-rtx4090", 8).host.memory);
}

TEST_CASE("ranks of one host divide its memory") {
  const ClusterSpec one = lay("cpu-test", 1);
  const ClusterSpec four = lay("cpu-test", 4);
  CHECK(four.device.memory.value == one.device.memory.value / 4);
  CHECK(four.host.memory == one.host.memory);
}

TEST_CASE("a cluster file adds rails and pods to a known node") {
  const TemporaryDirectory folder;
  const std::string path = folder.write("ours.json", documented_machine());
  const ClusterSpec cluster = lay(path, 0);
  CHECK(cluster.name == "ours");
  CHECK(shape(cluster) == "nvlink 8, rail 20, pod 4");
  CHECK(cluster.devices == 640);
  CHECK(cluster.device.id == "a100-sxm4-80gb");
  CHECK(cluster.levels[1].bandwidth == parse_rate("200Gbps"));
  CHECK(cluster.levels[2].bandwidth == parse_rate("5GB/s"));
  CHECK(cluster.levels[2].trust == Trust::given);
  CHECK(shape(lay(path, 320)) == "nvlink 8, rail 20, pod 2");
  CHECK(refuse(path, 648) == "648 GPUs: ours joins at most 640");
}

TEST_CASE("a price is the node's own, or its devices' together") {
  CHECK(lay("azure-nd96isr-h100-v5", 8).price_per_node_hour == 98);
  CHECK(lay("dgx-h100", 8).price_per_node_hour == 8 * (2.0 + 7.0) / 2);
  CHECK(lay("dgx-h100", 2).price_per_node_hour == 8 * (2.0 + 7.0) / 2);
}
