#include "time/price.h"

#include <algorithm>

#include "base/error.h"
#include "time/attained.h"
#include "time/collective.h"
#include "time/measured_price.h"

namespace ztplan {
namespace {

// Passes up to this size run at half the bandwidth of long ones, and it is
// what the first bytes of a long one cost twice. Source: RMSNorm and copy of
// 1 to 100 MB on H200 (NVIDIA/cudnn-frontend benchmark results).
constexpr Bytes kSlowStart{10'000'000};

// One pinned copy: 8 to 10 us. Source: NVIDIA/nvbandwidth, latency tests.
constexpr Seconds kCopyStart{10e-6};
// One read or write of a drive queue. Source: NVMe data sheets, 60 to 100 us.
constexpr Seconds kDriveStart{100e-6};

// CPU Adam of one modern core, vectorised, when memory is not the limit.
// Source: DeepSpeed CPU-Adam figures of arXiv 2101.06840, per core.
constexpr double kAdamPerCore = 0.4e9;  // parameters a second

// Pinned copies stream through host memory at this share of its data sheet.
// Source: STREAM results of two-socket servers, 0.75 to 0.85.
constexpr double kHostStreamShare = 0.8;

/// Bytes that a framework moves over those of fused kernels.
double unfused_factor(PassKind kind, const Calibration& calibration) {
  switch (kind) {
    case PassKind::layer:
      return calibration.pass_factor.value;
    case PassKind::loss:
      return calibration.loss_factor.value;
    case PassKind::gradient:
      return calibration.gradient_factor.value;
    case PassKind::fixed:
      break;
  }
  return 1;
}

/// Devices that share a node's host.
int sharers(const ClusterSpec& cluster) {
  return std::max(1, std::min(cluster.devices_per_node, cluster.devices));
}

/// One device's part of host memory bandwidth.
BytesPerSecond host_memory(const ClusterSpec& cluster) {
  return cluster.host.memory_bandwidth / sharers(cluster);
}

BytesPerSecond link_rate(const Machine& machine) {
  const BytesPerSecond link = machine.cluster.host.device_link *
                              machine.calibration.transfer_share.value;
  const BytesPerSecond memory = host_memory(machine.cluster) * kHostStreamShare;
  return memory.value > 0 ? std::min(link, memory) : link;
}

BytesPerSecond drive_rate(BytesPerSecond of_node, const Machine& machine) {
  return of_node * machine.calibration.nvme_share.value /
         sharers(machine.cluster);
}

BytesPerSecond channel_rate(Channel channel, const Machine& machine) {
  switch (channel) {
    case Channel::host_to_device:
    case Channel::device_to_host:
      return link_rate(machine);
    case Channel::nvme_read:
      return drive_rate(machine.cluster.host.nvme_read, machine);
    case Channel::nvme_write:
      return drive_rate(machine.cluster.host.nvme_write, machine);
  }
  return {};
}

Seconds channel_start(Channel channel) {
  return channel == Channel::nvme_read || channel == Channel::nvme_write
             ? kDriveStart
             : kCopyStart;
}

}  // namespace

Seconds price(const Work& work, const Machine& machine) {
  if (const auto seconds = measured_price(work, machine)) return *seconds;
  return std::visit(
      [&machine](const auto& kind) { return assumed_price(kind, machine); },
      work);
}

Seconds assumed_price(const Stream& work, const Machine& machine) {
  const Bytes at_full_rate = work.bytes + std::min(work.bytes, kSlowStart);
  return Seconds{machine.calibration.stream_start.value} +
         at_full_rate / attained_memory_bandwidth(machine) *
             unfused_factor(work.kind, machine.calibration);
}

Seconds assumed_price(const Transfer& work, const Machine& machine) {
  const BytesPerSecond rate = channel_rate(work.channel, machine);
  require(rate.value > 0, "a transfer is priced only where its link exists");
  return channel_start(work.channel) + work.bytes / rate;
}

Seconds assumed_price(const HostAdam& work, const Machine& machine) {
  const HostSpec& host = machine.cluster.host;
  const double parameters = static_cast<double>(work.parameters);
  const BytesPerSecond memory = host_memory(machine.cluster) *
                                machine.calibration.host_memory_share.value;
  require(memory.value > 0, "a host step is priced only where a host is known");
  const Seconds moved{parameters * machine.calibration.host_adam_bytes.value /
                      memory.value};
  const int cores = std::max(1, host.cores);
  const Seconds computed{parameters * sharers(machine.cluster) /
                         (kAdamPerCore * cores)};
  return std::max(moved, computed);
}

Seconds assumed_price(const Collective& work, const Machine& machine) {
  return choose(work, machine).time;
}

}  // namespace ztplan
