#include "time/span.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

namespace ztplan {
namespace {

// Shares of the raw rate that NCCL plans with. NVLink: 12 channels of 20 GB/s
// for 12 links of 25 (A100), 12 of 30 for 18 links of 25 (H100), 16 of 45 for
// 18 links of 50 (B200). PCIe: width * rate / 80, so 24 of 31.5 (gen 4) and 48
// of 63 GB/s (gen 5). Source: NCCL 2.28.9 src/graph/topo.h, search.cc.
constexpr double kNvlinkShare = 0.80;
constexpr double kPcieShare = 0.762;
// RCCL on a full mesh of xGMI: 313 of 448 GB/s with the slice of its own that
// each rank handles. Source: 8 MI300X, stas00/ml-engineering network.
constexpr double kXgmiShare = 0.75;

// More than two devices on PCIe meet at the host's bridges: 25 and 23.5 GB/s
// of 48 planned with 4 and 8 devices, 37.8 with 2. Source: RTX PRO 6000, PCIe
// 5.0, ai-dynamo/aiconfigurator systems/data/rtx_pro_6000_server/comm/nccl.
constexpr int kPcieFreePair = 2;
constexpr double kPcieCrowded = 0.55;

// Planned rates of rings over the first n of eight V100 in a hybrid cube mesh,
// over that of all eight: what the measured rates imply. Source: all-reduce at
// 1 GiB, VIA-Research/vTrain trace/v100: 22.6, 45.1, 85.4, 37.2, 45.7, 87.0 and
// 134.5 GB/s for n = 2 to 8.
constexpr std::array<double, 9> kCubeMeshShare{1,    1,     0.215, 0.385, 0.685,
                                               0.29, 0.355, 0.67,  1};
constexpr int kCubeMesh = 8;  // devices; 16 have a switch, 4 a full mesh

/// Devices that the board joins, used or not.
int board_of(const Level& level) {
  return std::max(level.capacity, level.fanout);
}

/// Without a switch only the links to other members carry a group's traffic.
double mesh_share(const Level& level, int members) {
  return static_cast<double>(members - 1) / std::max(1, board_of(level) - 1);
}

double nvlink_share(const Level& level, int members, Generation generation) {
  if (generation != Generation::volta || board_of(level) > kCubeMesh)
    return kNvlinkShare;
  if (board_of(level) == kCubeMesh)
    return kNvlinkShare * kCubeMeshShare.at(static_cast<std::size_t>(
                              std::min(members, kCubeMesh)));
  return kNvlinkShare * std::min(1.0, mesh_share(level, members));
}

double pcie_share(int members) {
  return members <= kPcieFreePair ? kPcieShare : kPcieShare * kPcieCrowded;
}

/// Of the level's raw rate, what a ring over `members` of it plans with.
double planned_share(const Level& level, int members, const Span& span,
                     const Calibration& calibration) {
  switch (level.kind) {
    case LinkKind::nvlink:
      return nvlink_share(level, members, span.generation);
    case LinkKind::xgmi:
      return kXgmiShare * std::min(1.0, mesh_share(level, members));
    case LinkKind::pcie:
      return std::min(level.achieved, pcie_share(members));
    case LinkKind::network:
      return std::min(level.achieved, calibration.network_share.value);
    case LinkKind::memory:
      return level.achieved;
  }
  return level.achieved;
}

BytesPerSecond slower(BytesPerSecond a, BytesPerSecond b) {
  if (a.value <= 0) return b;  // none yet
  return std::min(a, b);
}

/// The part of a group below `level`, where `inside` members are one.
struct Crossing {
  int inside, members;  // before and after this level joins them
};

void cross_local(Span& span, const Level& level, Crossing crossing,
                 const Calibration& calibration) {
  const int joined = std::max(2, crossing.members / crossing.inside);
  const double share = planned_share(level, joined, span, calibration);
  span.local = slower(span.local, level.bandwidth * share * crossing.inside);
  span.local_kind = level.kind;
  span.per_node = crossing.members;
  span.in_network_reduction = level.in_network_reduction;
}

void cross_network(Span& span, const Level& level, Crossing crossing,
                   const Calibration& calibration) {
  const double share =
      planned_share(level, crossing.members, span, calibration);
  const BytesPerSecond rate = level.bandwidth * share;
  span.across = slower(span.across, rate * crossing.inside);
  span.to_peer = slower(span.to_peer, rate);
  const int nics = std::max(1, level.nics_per_node);
  span.one_nic = slower(span.one_nic, rate * crossing.inside / nics);
  span.hop = std::max(span.hop, level.latency);
}

/// A group whose widest placement crosses nodes has two of them at least, even
/// where its most fortunate one would fit into one.
void settle_nodes(Span& span) {
  if (span.across.value <= 0) return;
  const std::int64_t nodes = divide_up(span.ranks, span.per_node);
  span.nodes = static_cast<int>(std::max<std::int64_t>(2, nodes));
  span.per_node = std::max(1, std::min(span.per_node, span.ranks / span.nodes));
}

}  // namespace

Generation generation_of(const DeviceSpec& device) {
  const std::string_view name = device.architecture;
  if (name.starts_with("Blackwell")) return Generation::blackwell;
  if (name == "Hopper" || name.starts_with("CDNA")) return Generation::hopper;
  if (name == "Volta" || name == "Pascal" || name == "Turing")
    return Generation::volta;
  return Generation::ampere;
}

Span span_of(const Group& group, const Machine& machine) {
  const ClusterSpec& cluster = machine.cluster;
  Span span{.generation = generation_of(cluster.device), .ranks = group.size};
  if (group.size == 1) return span;
  span.nvlink_machine = cluster.levels.front().kind == LinkKind::nvlink;
  const std::size_t widest = level_spanned(group, cluster);
  Crossing crossing{.inside = 1, .members = 1};
  for (std::size_t i = 0; i <= widest; ++i) {
    crossing.members = members_within(group, cluster, i);
    if (crossing.members == crossing.inside && i != widest) continue;
    const Level& level = cluster.levels[i];
    if (level.kind == LinkKind::network)
      cross_network(span, level, crossing, machine.calibration);
    else
      cross_local(span, level, crossing, machine.calibration);
    crossing.inside = crossing.members;
  }
  settle_nodes(span);
  return span;
}

BytesPerSecond ring_rate(const Span& span) {
  if (span.across.value <= 0) return span.local;
  if (span.local.value <= 0) return span.across;
  return std::min(span.local, span.across);
}

}  // namespace ztplan
