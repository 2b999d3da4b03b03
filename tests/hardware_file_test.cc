// The files of hardware/ are read strictly: one thing wrong, one line that
// says where.
#include "spec/hardware_file.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "base/quantity_text.h"
#include "spec/blueprint.h"
#include "support/messages.h"

using namespace ztplan;

namespace {

constexpr std::string_view kDevice = R"({
  "id": "x", "architecture": "Hopper",
  "memory": {"nominal": "80GB", "kind": "HBM", "driver": "81559MiB",
             "usable": "79GiB", "bandwidth": "3350GB/s"},
  "peak": {"fp32": "67TFLOPS", "bf16": "989TFLOPS"},
  "scale_up": {"link": "NVLink4", "bandwidth": "450GB/s", "links": 18},
  "pcie": {"generation": 5, "lanes": 16, "bandwidth": "63GB/s"},
  "price_usd_per_hour": [2, 7], "source": "a datasheet"})";

constexpr std::string_view kNetwork = R"({
  "id": "n", "kind": "network", "technology": "InfiniBand",
  "bandwidth": "50GB/s", "achieved": 0.96, "transport_latency": "2us",
  "source": "a datasheet"})";

constexpr std::string_view kMachine = R"({
  "id": "m", "device": "h100", "devices_per_node": 8,
  "levels": [
    {"name": "nvlink", "link": "nvlink4", "fanout": 8},
    {"name": "network", "link": "ib-ndr", "nics_per_node": 8}],
  "host": {"memory": "1TiB", "memory_bandwidth": "400GB/s",
           "nvme": {"size": "4TB", "drives": 2, "drive": "nvme-gen4"},
           "device_link": {"link": "pcie5-x16", "shared_by": 2}}})";

/// `text` with the first `from` replaced.
std::string edited(std::string_view text, std::string_view from,
                   std::string_view to) {
  std::string out(text);
  const std::size_t at = out.find(from);
  REQUIRE(at != std::string::npos);
  return out.replace(at, from.size(), to);
}

JsonView json(std::string_view text) { return JsonView::parse(text, "f"); }

struct Edit {
  std::string_view from;
  std::string_view to;
  std::string_view message;
};

template <class Parse, std::size_t size>
void check_refusals(std::string_view text, Parse parse,
                    const Edit (&edits)[size]) {
  for (const Edit& edit : edits) {
    CAPTURE(edit.to);
    const std::string wrong = edited(text, edit.from, edit.to);
    CHECK(refusal([&] { parse(json(wrong)); }) == edit.message);
  }
}

}  // namespace

TEST_CASE("a device file is read with its units") {
  const DeviceFile file = parse_device(json(kDevice));
  CHECK(file.device.name == "x");
  CHECK(file.device.memory == parse_bytes("79GiB"));
  CHECK(file.device.bf16 == parse_flops_rate("989TFLOPS"));
  CHECK(file.device.fp8.value == 0);
  CHECK(file.device.price_per_hour == 4.5);
  CHECK(file.device.trust == Trust::given);
  CHECK(file.scale_up_links == 18);
}

TEST_CASE("a device file that is wrong is refused") {
  const Edit edits[] = {
      {"\"id\": \"x\"", "\"id\": \"\"", "f: id: must not be empty"},
      {"\"id\": \"x\", ", "", "f: key \"id\" is missing"},
      {"\"architecture\"", "\"arch\"", "f: unknown key \"arch\""},
      {"\"79GiB\"", "\"79\"", "f: memory.usable: \"79\": has no unit"},
      {"\"79GiB\"", "79", "f: memory.usable: expected a string, found 79"},
      {"\"79GiB\"", "\"90GiB\"",
       "f: memory.usable: more than the driver shows"},
      {"\"usable\"", "\"useable\"", "f: memory: unknown key \"useable\""},
      {"\"989TFLOPS\"", "\"989TB\"",
       "f: peak.bf16: \"989TB\": unknown unit \"TB\""},
      {"\"fp32\": \"67TFLOPS\", ", "", "f: peak: key \"fp32\" is missing"},
      {"\"links\": 18", "\"links\": -1",
       "f: scale_up.links: expected a whole number from 0 to 1000000, found "
       "-1"},
      {"[2, 7]", "[7, 2]",
       "f: price_usd_per_hour: expected [low, high] in USD per hour, 0 <= low "
       "<= high"},
      {"[2, 7]", "[2]",
       "f: price_usd_per_hour: expected [low, high] in USD per hour"},
      {"\"source\": \"a datasheet\"", "\"trust\": \"sure\", \"source\": \"a\"",
       "f: trust: unknown word \"sure\""},
      {", \"source\": \"a datasheet\"", "", "f: key \"source\" is missing"},
  };
  check_refusals(kDevice, parse_device, edits);
}

TEST_CASE("a network file is read, and refused when it is wrong") {
  const NetworkSpec network = parse_network(json(kNetwork));
  CHECK(network.level.bandwidth == parse_rate("400Gbps"));
  CHECK(network.level.latency == parse_seconds("2us"));
  CHECK_FALSE(network.level.in_network_reduction);
  const Edit edits[] = {
      {"0.96", "0", "f: achieved: must be from 0.001 to 1"},
      {"0.96", "1e-300", "f: achieved: must be from 0.001 to 1"},
      {"0.96", "1.2", "f: achieved: must be from 0.001 to 1"},
      {"0.96", "\"0.96\"", "f: achieved: expected a number, found \"0.96\""},
      {"\"network\"", "\"wire\"", "f: kind: unknown word \"wire\""},
      {"\"2us\"", "\"2\"", "f: transport_latency: \"2\": has no unit"},
  };
  check_refusals(kNetwork, parse_network, edits);
}

TEST_CASE("a machine file is put together from what it names") {
  const Blueprint blueprint = make_blueprint(parse_machine(json(kMachine)));
  const ClusterSpec& cluster = blueprint.cluster;
  CHECK(cluster.device.id == "h100-sxm-80gb");
  CHECK(cluster.levels[0].bandwidth == parse_rate("450GB/s"));
  CHECK(cluster.levels[1].bandwidth == parse_rate("400Gbps"));
  CHECK(cluster.host.device_link == parse_rate("31.5GB/s"));
  CHECK(cluster.host.nvme_read == parse_rate("13.5GB/s"));
  CHECK(blueprint.reach == std::vector<int>{8, kMostDevices});
}

TEST_CASE("a machine may describe its device and its links in place") {
  const std::string device = edited(kMachine, "\"h100\"", kDevice);
  const std::string text =
      edited(device, "\"link\": \"ib-ndr\", \"nics_per_node\": 8",
             "\"kind\": \"network\", \"bandwidth\": \"1GB/s\"");
  const Blueprint blueprint = make_blueprint(parse_machine(json(text)));
  CHECK(blueprint.cluster.device.id == "x");
  CHECK(blueprint.cluster.levels[1].bandwidth == parse_rate("1GB/s"));
  CHECK(blueprint.cluster.levels[1].kind == LinkKind::network);
}

TEST_CASE("a machine file that is wrong is refused") {
  const Edit edits[] = {
      {"\"device\": \"h100\", ", "", "f: key \"device\" is missing"},
      {"\"device\": \"h100\"", "\"device\": \"\"",
       "f: device: must not be empty"},
      {"\"device\": \"h100\"", "\"gpu\": \"h100\"", "f: unknown key \"gpu\""},
      {"\"devices_per_node\": 8", "\"devices_per_node\": 0",
       "f: devices_per_node: expected a whole number from 1 to 1000000, found "
       "0"},
      {"\"fanout\": 8", "\"fanout\": 0",
       "f: levels[0].fanout: expected a whole number from 1 to 1000000, found "
       "0"},
      {", \"fanout\": 8", "",
       "f: levels[0]: only the last level may have no fanout"},
      {"\"link\": \"ib-ndr\"", "\"kind\": \"network\"",
       "f: levels[1]: says neither which link it is nor its kind and "
       "bandwidth"},
      {"\"name\": \"network\"", "\"name\": \"nvlink\"",
       "f: levels[1].name: an inner level has this name"},
      {"\"nics_per_node\": 8", "\"nics\": 8",
       "f: levels[1]: unknown key \"nics\""},
      {"\"shared_by\": 2", "\"shared_by\": 1.5",
       "f: host.device_link.shared_by: expected a whole number from 1 to "
       "1000000, found 1.5"},
      {"\"1TiB\"", "\"1TB/s\"",
       "f: host.memory: \"1TB/s\": unknown unit "
       "\"TB/s\""},
  };
  check_refusals(kMachine, parse_machine, edits);
}

TEST_CASE("a machine that names what is not there is refused") {
  const auto build = [](const JsonView& file) {
    return make_blueprint(parse_machine(file));
  };
  const Edit edits[] = {
      {"\"h100\"", "\"h1000\"", "no device \"h1000\""},
      {"\"ib-ndr\"", "\"ib-abc\"", "no link or network \"ib-abc\""},
      {"\"ib-ndr\"", "\"../nodes/dgx-h100\"",
       "no link or network \"../nodes/dgx-h100\""},
      {"\"ib-ndr\"", "\"nvme-gen4\"",
       "m: level network: nvme-gen4 joins a host and its memory, not GPUs"},
      {"\"fanout\": 8", "\"fanout\": 6",
       "m: level nvlink joins 6 devices, which does not go with 8 a node"},
      {"\"device\": \"h100\", ", "\"like\": \"dgx-h1000\", ",
       "no node or cluster \"dgx-h1000\""},
      {"\"device\": \"h100\", ", "\"like\": \"meta-llama3-roce\", ",
       "m: \"like\": meta-llama3-roce is like dgx-h100 itself"},
  };
  check_refusals(kMachine, build, edits);
}
