#include "spec/cluster.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace ztplan {
namespace {

/// Says which cluster is wrong, and where.
struct Checker {
  const ClusterSpec& cluster;

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(fmt::format("{}: {}", cluster.name, what));
  }
  void positive(double value, const std::string& what) const {
    if (!std::isfinite(value) || value <= 0) {
      fail(fmt::format("{} must be more than 0", what));
    }
  }
  void not_negative(double value, const std::string& what) const {
    if (!std::isfinite(value) || value < 0) {
      fail(fmt::format("{} must not be negative", what));
    }
  }
};

void check_device(const Checker& check) {
  const DeviceSpec& device = check.cluster.device;
  check.positive(static_cast<double>(device.memory.value), "device memory");
  check.positive(device.memory_bandwidth.value, "device memory bandwidth");
  check.positive(device.fp32.value, "device fp32 rate");
  for (const FlopsPerSecond rate :
       {device.tf32, device.fp16, device.bf16, device.fp8, device.fp4,
        device.matmul_achieved}) {
    check.not_negative(rate.value, "device rate");
  }
}

void check_host(const Checker& check) {
  const HostSpec& host = check.cluster.host;
  check.positive(static_cast<double>(host.memory.value), "host memory");
  check.positive(host.memory_bandwidth.value, "host memory bandwidth");
  check.positive(host.device_link.value, "host link of a device");
  check.not_negative(static_cast<double>(host.nvme.value), "NVMe size");
  if (host.nvme.value == 0) return;
  check.positive(host.nvme_read.value, "NVMe read rate");
  check.positive(host.nvme_write.value, "NVMe write rate");
}

void check_level(const Checker& check, const Level& level) {
  const std::string what = "level " + level.name;
  if (level.fanout < 1) check.fail(what + ": fanout must be at least 1");
  check.not_negative(level.capacity, what + ": capacity");
  check.positive(level.bandwidth.value, what + ": bandwidth");
  check.positive(level.achieved, what + ": achieved share");
  if (level.achieved > 1) check.fail(what + ": achieves more than all of it");
  check.not_negative(level.latency.value, what + ": latency");
  check.not_negative(level.nics_per_node, what + ": NICs per node");
}

void check_counts(const Checker& check) {
  const ClusterSpec& cluster = check.cluster;
  if (cluster.devices < 1 || cluster.devices > kMostDevices) {
    check.fail(fmt::format("{} devices: 1 to {} are allowed", cluster.devices,
                           kMostDevices));
  }
  const int per_node = cluster.devices_per_node;
  if (per_node < 1 || cluster.devices % per_node != 0) {
    check.fail(fmt::format("{} devices do not fill nodes of {}",
                           cluster.devices, per_node));
  }
  std::int64_t joined = 1;
  for (const Level& level : cluster.levels) {
    if (joined <= kMostDevices) joined *= level.fanout;
  }
  if (joined != cluster.devices) {
    check.fail(
        fmt::format("levels join {} devices, not {}", joined, cluster.devices));
  }
}

}  // namespace

std::string_view to_text(Trust trust) {
  switch (trust) {
    case Trust::measured:
      return "measured";
    case Trust::given:
      return "given";
    case Trust::stored:
      return "stored";
    case Trust::cross:
      return "cross";
    case Trust::quoted:
      return "quoted";
    case Trust::assumed:
      return "assumed";
  }
  return "assumed";
}

std::string_view to_text(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink:
      return "nvlink";
    case LinkKind::xgmi:
      return "xgmi";
    case LinkKind::pcie:
      return "pcie";
    case LinkKind::network:
      return "network";
    case LinkKind::memory:
      return "memory";
  }
  return "memory";
}

void validate(const ClusterSpec& cluster) {
  const Checker check{cluster};
  if (cluster.levels.empty()) check.fail("has no level");
  if (cluster.levels.size() > kMostLevels) {
    check.fail(fmt::format("more than {} levels", kMostLevels));
  }
  check_device(check);
  check_host(check);
  for (const Level& level : cluster.levels) check_level(check, level);
  check_counts(check);
}

}  // namespace ztplan
