#include <doctest/doctest.h>

#include "base/error.h"
#include "support/priced_machine.h"
#include "time/price.h"

using namespace ztplan;

namespace {

Seconds stream(const PricedMachine& on, std::int64_t bytes) {
  return price(Stream{Bytes{bytes}}, on.machine());
}

PricedMachine with_host(PricedMachine made, const HostSpec& host) {
  made.cluster.host = host;
  return made;
}

Seconds copy(const PricedMachine& on, Channel channel, std::int64_t bytes) {
  return price(Transfer{channel, Bytes{bytes}}, on.machine());
}

// Two sockets of six channels DDR4-2666, as in the DGX-2 of ZeRO-Offload.
HostSpec xeon_8168() {
  HostSpec host;
  host.nvme_read = {25e9};
  host.nvme_write = {20e9};
  host.memory_bandwidth = {256e9};
  host.device_link = {15.75e9};
  host.cores = 48;
  return host;
}

}  // namespace

TEST_CASE("long passes run at the attained bandwidth, short ones at half") {
  const PricedMachine h200 = node_of("h200");
  const double attained = 4800e9 * h200.calibration.memory_share.value;
  const double start = h200.calibration.stream_start.value;
  CHECK(stream(h200, 0).value == start);
  CHECK(stream(h200, 5'000'000).value ==
        doctest::Approx(start + 2 * 5e6 / attained));
  CHECK(stream(h200, 10'000'000'000).value ==
        doctest::Approx(10e9 / attained).epsilon(0.01));
}

TEST_CASE("RMSNorm on H200 takes what was measured") {
  // Source: NVIDIA/cudnn-frontend: forward at 3.3 to 3.8 TB/s, large tensors.
  const std::int64_t bytes = 4LL * 8192 * 32768;
  const double rate =
      static_cast<double>(bytes) / stream(node_of("h200"), bytes).value;
  CHECK(rate > 3.3e12);
  CHECK(rate < 3.9e12);
}

TEST_CASE("copies to the host take what was measured") {
  // Source: stas00/ml-engineering: 55.4 GB/s, PCIe 5 of an H200, nvbandwidth.
  HostSpec host;
  host.memory_bandwidth = {614e9};
  host.device_link = {63e9};
  const PricedMachine one = with_host(node_of("h200"), host);
  const Seconds time = copy(one, Channel::host_to_device, 10'000'000'000);
  CHECK(10e9 / time.value == doctest::Approx(55.4e9).epsilon(0.08));
  CHECK(copy(one, Channel::device_to_host, 10'000'000'000) == time);
}

TEST_CASE("all devices of a node share its memory and its drives") {
  const PricedMachine eight = with_host(node_of("v100"), xeon_8168());
  PricedMachine one = eight;
  one.cluster.devices = 1;
  const std::int64_t bytes = 8'000'000'000;
  CHECK(copy(eight, Channel::nvme_read, bytes) /
            copy(one, Channel::nvme_read, bytes) ==
        doctest::Approx(8).epsilon(0.01));
  CHECK(copy(one, Channel::nvme_write, bytes).value ==
        doctest::Approx(8e9 / (20e9 * 0.9)).epsilon(0.01));
  PricedMachine starved = eight;
  starved.cluster.host.memory_bandwidth = {80e9};  // 8 GB/s each, not 13
  CHECK(copy(starved, Channel::host_to_device, bytes).value ==
        doctest::Approx(1).epsilon(0.01));
}

TEST_CASE("a transfer without a link is our own mistake") {
  CHECK_THROWS_AS(copy(node_of("h100"), Channel::nvme_read, 1), Bug);
}

TEST_CASE("CPU Adam takes what ZeRO-Offload published") {
  // Source: arXiv 2101.06840, table 4: 0.22, 0.51, 1.03 and 2.57 s.
  PricedMachine one = with_host(node_of("v100"), xeon_8168());
  one.cluster.devices = 1;
  const auto step = [&](double parameters) {
    return price(HostAdam{static_cast<std::int64_t>(parameters)}, one.machine())
        .value;
  };
  CHECK(step(1e9) == doctest::Approx(0.22).epsilon(0.12));
  CHECK(step(2e9) == doctest::Approx(0.51).epsilon(0.12));
  CHECK(step(4e9) == doctest::Approx(1.03).epsilon(0.12));
  CHECK(step(1e10) == doctest::Approx(2.57).epsilon(0.12));
}

TEST_CASE("CPU Adam of a node's devices waits for memory or for cores") {
  const PricedMachine eight = with_host(node_of("v100"), xeon_8168());
  PricedMachine one = eight;
  one.cluster.devices = 1;
  const HostAdam work{1'000'000'000};
  CHECK(price(work, eight.machine()) == 8 * price(work, one.machine()));
  one.cluster.host.cores = 2;  // 0.4e9 parameters a second each
  CHECK(price(work, one.machine()).value == doctest::Approx(1.25));
}
