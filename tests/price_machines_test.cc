#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "spec/catalog.h"
#include "time/price.h"

using namespace ztplan;

namespace {

bool is_sane(Seconds time) {
  return std::isfinite(time.value) && time > Seconds{0} && time < Seconds{1e4};
}

constexpr std::int64_t kLarge = 1LL << 30;

}  // namespace

TEST_CASE("every node of hardware/ prices every kind of work") {
  for (const ClusterSpec& node : all_nodes()) {
    CAPTURE(node.name);
    const Calibration calibration = published_calibration(node.device);
    const Machine machine{node, calibration};
    for (const Precision precision :
         {Precision::fp32, Precision::fp16, Precision::bf16, Precision::fp8})
      CHECK(is_sane(price(Matmul{1024, 1024, 1024, 1, precision}, machine)));
    CHECK(is_sane(price(Stream{Bytes{kLarge}}, machine)));
    if (node.host.device_link.value > 0)
      CHECK(is_sane(
          price(Transfer{Channel::host_to_device, Bytes{kLarge}}, machine)));
    if (node.host.nvme_read.value > 0)
      CHECK(
          is_sane(price(Transfer{Channel::nvme_read, Bytes{kLarge}}, machine)));
    if (node.host.memory_bandwidth.value > 0)
      CHECK(is_sane(price(HostAdam{1'000'000'000}, machine)));
    for (const CollectiveOp op :
         {CollectiveOp::all_reduce, CollectiveOp::all_gather,
          CollectiveOp::all_to_all, CollectiveOp::send_receive})
      if (node.devices > 1)
        CHECK(is_sane(price(Collective{op, {2, 1}, {kLarge}}, machine)));
  }
}

TEST_CASE("every device has a share of its own, or its architecture's") {
  for (const DeviceSpec& device : all_devices()) {
    CAPTURE(device.id);
    const Constant share = published_calibration(device).matmul_share;
    CHECK(share.source != published_calibration({}).matmul_share.source);
    CHECK(share.value > 0.3);
    CHECK(share.value <= 0.95);
    CHECK(share.low <= share.value);
    CHECK(share.value <= share.high);
  }
}
