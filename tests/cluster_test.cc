#include "spec/cluster.h"

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <string>

#include "base/error.h"
#include "support/messages.h"

using namespace ztplan;

namespace {

/// Two nodes of four.
ClusterSpec two_nodes() {
  ClusterSpec cluster;
  cluster.name = "pair";
  cluster.device.memory = Bytes{16 * kGiB};
  cluster.device.memory_bandwidth = {900e9};
  cluster.device.fp32 = {15e12};
  cluster.host.memory = Bytes{512 * kGiB};
  cluster.host.memory_bandwidth = {200e9};
  cluster.host.device_link = {16e9};
  Level inner, outer;
  inner.name = "nvlink";
  inner.fanout = 4;
  inner.bandwidth = {150e9};
  outer.name = "network";
  outer.fanout = 2;
  outer.bandwidth = {12.5e9};
  cluster.levels = {inner, outer};
  cluster.devices = 8;
  cluster.devices_per_node = 4;
  return cluster;
}

std::string refusal_after(const std::function<void(ClusterSpec&)>& change) {
  ClusterSpec cluster = two_nodes();
  change(cluster);
  return refusal([&] { validate(cluster); });
}

}  // namespace

TEST_CASE("a sound cluster is accepted") {
  CHECK_NOTHROW(validate(two_nodes()));
}

TEST_CASE("a cluster that cannot be is refused by name and field") {
  const double infinite = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const struct {
    const char* message;
    std::function<void(ClusterSpec&)> change;
  } rows[] = {
      {"pair: has no level", [](auto& c) { c.levels.clear(); }},
      {"pair: more than 8 levels", [](auto& c) { c.levels.resize(9); }},
      {"pair: levels join 8 devices, not 12", [](auto& c) { c.devices = 12; }},
      {"pair: 8 devices do not fill nodes of 3",
       [](auto& c) { c.devices_per_node = 3; }},
      {"pair: 8 devices do not fill nodes of 0",
       [](auto& c) { c.devices_per_node = 0; }},
      {"pair: 0 devices: 1 to 10000000 are allowed",
       [](auto& c) { c.devices = 0; }},
      {"pair: 1000000000 devices: 1 to 10000000 are allowed",
       [](auto& c) { c.devices = 1'000'000'000; }},
      {"pair: level nvlink: fanout must be at least 1",
       [](auto& c) { c.levels[0].fanout = 0; }},
      {"pair: level network: bandwidth must be more than 0",
       [](auto& c) { c.levels[1].bandwidth = {0}; }},
      {"pair: level network: bandwidth must be more than 0",
       [=](auto& c) { c.levels[1].bandwidth = {infinite}; }},
      {"pair: level network: achieved share must be more than 0",
       [](auto& c) { c.levels[1].achieved = 0; }},
      {"pair: level network: achieves more than all of it",
       [](auto& c) { c.levels[1].achieved = 1.5; }},
      {"pair: level network: latency must not be negative",
       [=](auto& c) { c.levels[1].latency = {nan}; }},
      {"pair: device memory must be more than 0",
       [](auto& c) { c.device.memory = {0}; }},
      {"pair: device memory bandwidth must be more than 0",
       [=](auto& c) { c.device.memory_bandwidth = {nan}; }},
      {"pair: device rate must not be negative",
       [](auto& c) { c.device.bf16 = {-1}; }},
      {"pair: host memory must be more than 0",
       [](auto& c) { c.host.memory = {0}; }},
      {"pair: host link of a device must be more than 0",
       [](auto& c) { c.host.device_link = {0}; }},
      {"pair: NVMe read rate must be more than 0",
       [](auto& c) { c.host.nvme = {1}; }},
  };
  for (const auto& row : rows) CHECK(refusal_after(row.change) == row.message);
}

TEST_CASE("fanouts that overflow are refused, not multiplied") {
  CHECK(refusal_after([](ClusterSpec& c) {
          for (Level& level : c.levels) level.fanout = 2'000'000'000;
        }) != "");
}
