// What a machine is: a device, its host, and nested levels of links.
// Rates are dense flops, and bytes per device in one direction.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"

namespace ztplan {

/// How far a figure can be trusted, best first (the `check` column of the
/// reference tables; `given` is a value the user set on the command line).
enum class Trust { measured, given, stored, cross, quoted, assumed };

struct DeviceSpec {
  std::string id;            // "h100-sxm-80gb"
  std::string name;          // "NVIDIA H100 80GB HBM3"
  std::string architecture;  // "Volta", "Ampere", "Hopper", "Blackwell", ...
  Bytes memory;              // what the framework reports as total
  BytesPerSecond memory_bandwidth;
  FlopsPerSecond fp32, tf32, fp16, bf16, fp8, fp4;  // dense peaks; 0: absent
  FlopsPerSecond matmul_achieved;  // best large bf16 product; 0: not known
  int sm_count = 0;
  Bytes l2;
  double price_per_hour = 0;  // USD, rough, 0: not known
  Trust trust = Trust::assumed;
  std::string source;
  auto operator<=>(const DeviceSpec&) const = default;
};

enum class LinkKind { nvlink, xgmi, pcie, network, memory };

/// One nesting of a cluster: `fanout` groups of the level below, joined by
/// links. Innermost first; the product of fanouts is the number of devices.
struct Level {
  std::string name;  // "nvlink", "node", "network"
  LinkKind kind = LinkKind::network;
  int fanout = 1;
  BytesPerSecond bandwidth;  // raw, per device, one direction, all devices busy
  double achieved = 1;       // share of it that large messages reach
  Seconds latency;           // added per hop by the transport (EFA plug-in...)
  bool in_network_reduction = false;  // NVLS
  int nics_per_node = 0;              // network levels: 0 elsewhere
  Trust trust = Trust::assumed;
  std::string source;
  auto operator<=>(const Level&) const = default;
};

struct HostSpec {
  Bytes memory;                          // of one node
  Bytes nvme;                            // of one node; 0: none
  BytesPerSecond nvme_read, nvme_write;  // of one node
  BytesPerSecond memory_bandwidth;       // of one node
  BytesPerSecond device_link;  // host to device, per device, one direction
  int cores = 0;
  auto operator<=>(const HostSpec&) const = default;
};

struct ClusterSpec {
  std::string name;  // "dgx-h100"
  DeviceSpec device;
  HostSpec host;
  std::vector<Level> levels;  // innermost first
  int devices = 0;
  int devices_per_node = 0;
  double price_per_node_hour = 0;  // USD, rough, 0: not known
  std::string source;
  auto operator<=>(const ClusterSpec&) const = default;
};

/// Devices joined by `levels[0..level]`. Requires level < levels.size().
int devices_within(const ClusterSpec& cluster, std::size_t level);

/// Throws `Error` when levels and devices do not agree or a rate is not real.
void validate(const ClusterSpec& cluster);

}  // namespace ztplan
