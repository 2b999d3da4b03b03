// How a group lies on the links of a machine, in the terms NCCL plans with:
// ranks, nodes, and the rates its rings find inside a node and across.
#pragma once

#include "base/units.h"
#include "spec/cluster.h"
#include "strategy/layout.h"
#include "time/price.h"

namespace ztplan {

/// What NCCL's tables tell apart. Later and unknown devices are taken as the
/// nearest one measured.
enum class Generation { volta, ampere, hopper, blackwell };
Generation generation_of(const DeviceSpec& device);

/// A group, seen from one of its nodes; a node is what NVLink, xGMI or PCIe
/// joins (an NVL72 rack is one). Rates are the group's own share when every
/// device of the machine is in a group like it.
struct Span {
  Generation generation = Generation::ampere;
  int ranks = 1;
  int per_node = 1;
  int nodes = 1;
  LinkKind local_kind = LinkKind::nvlink;  // the slowest kind inside a node
  BytesPerSecond local{};  // a ring's rate inside a node; 0 with one rank there
  BytesPerSecond across{};   // rate into a node, all members; 0 with one node
  BytesPerSecond to_peer{};  // rate of one rank to a peer in another node
  BytesPerSecond one_nic{};  // `across`, were a node's groups to share one NIC
  Seconds hop{};             // what the transport adds to each network step
  bool in_network_reduction = false;
  bool nvlink_machine = false;  // its devices are joined by NVLink
};

/// Requires group.size >= 1. O(levels), allocates nothing.
Span span_of(const Group& group, const Machine& machine);

/// Rate of a flat ring over all ranks: the slowest link on its way.
BytesPerSecond ring_rate(const Span& span);

}  // namespace ztplan
