// What a machine is: a device, its host, and nested levels of links.
// Rates are dense flops, and bytes per device in one direction.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace ztplan {

/// How far a figure can be trusted, best first (the `check` column of the
/// reference tables; `given` is a value the user set on the command line).
enum class Trust { measured, given, stored, cross, quoted, assumed };

std::string_view to_text(Trust trust);  // "quoted"

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
  std::vector<std::string> aliases = {};  // other names of it: "h100"
  auto operator<=>(const DeviceSpec&) const = default;
};

enum class LinkKind { nvlink, xgmi, pcie, network, memory };

std::string_view to_text(LinkKind kind);  // "nvlink"

/// One nesting of a cluster: `fanout` groups of the level below, joined by
/// links. Innermost first; the product of fanouts is the number of devices.
/// A machine keeps all its levels however few devices are used: those that
/// join nothing have a fanout of 1.
struct Level {
  std::string name;  // "nvlink", "node", "network"
  LinkKind kind = LinkKind::network;
  int fanout = 1;
  /// The fanout were all of it used: 8 of an 8-GPU board, of whose links four
  /// GPUs reach three only. 0: any number.
  int capacity = 0;
  BytesPerSecond bandwidth;  // raw, per device, one direction, all devices busy
  double achieved = 1;       // share of it that large messages reach
  /// What the transport adds to each hop on top of NCCL's own step (network:
  /// NCCL's latencyInter, 0 on InfiniBand, 75 us of the EFA v1 plug-in).
  Seconds latency;
  bool in_network_reduction = false;  // NVLS
  int nics_per_node = 0;              // network levels: 0 elsewhere
  Trust trust = Trust::assumed;
  std::string source;
  auto operator<=>(const Level&) const = default;
};

struct HostSpec {
  Bytes memory;  // of one node
  Bytes nvme;    // of one node; 0: none
  // All rates are raw, as the maker states them: what a copy reaches of them
  // is the calibration's.
  BytesPerSecond nvme_read, nvme_write;  // of one node
  BytesPerSecond memory_bandwidth;       // of one node
  /// Host to device, per device, one direction, all devices of a node busy
  /// (two that share a switch get half each).
  BytesPerSecond device_link;
  int cores = 0;
  Trust trust = Trust::assumed;  // of the rates, the least trusted of them
  std::string source = {};
  auto operator<=>(const HostSpec&) const = default;
};

struct ClusterSpec {
  std::string name;  // "dgx-h100"
  DeviceSpec device;
  HostSpec host;
  std::vector<Level> levels;  // innermost first
  int devices = 0;
  /// Devices used of one node: they share its host. Divides `devices`.
  int devices_per_node = 0;
  double price_per_node_hour = 0;  // USD, rough, 0: not known
  std::string source;
  std::vector<std::string> aliases = {};
  Trust trust = Trust::assumed;
  auto operator<=>(const ClusterSpec&) const = default;
};

/// The first `devices` of `cluster`: whole inner levels, then as much of the
/// next as it takes; unused levels stay, with a fanout of 1. Requires that they
/// fill it evenly, 1 <= devices <= cluster.devices.
ClusterSpec first_devices(const ClusterSpec& cluster, int devices);

/// Counts up to all of `cluster` that fill its levels evenly, doubling inside a
/// node and from one node on, ascending; the whole cluster last.
std::vector<int> device_counts(const ClusterSpec& cluster);

/// The most levels a cluster may have, and the most devices: well past any
/// machine that was built.
constexpr std::size_t kMostLevels = 8;
constexpr int kMostDevices = 10'000'000;

/// Throws `Error`, naming the cluster and the field, when levels and devices do
/// not agree or a rate is not finite and positive.
void validate(const ClusterSpec& cluster);

}  // namespace ztplan
