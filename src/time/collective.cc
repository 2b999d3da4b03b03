#include "time/collective.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "time/nccl_model.h"
#include "time/nccl_tables.h"
#include "time/span.h"

namespace ztplan {
namespace {

// What NCCL's plan leaves out, found in 621 published one-node measurements
// (docs/decisions). A rank's own slice is copied or reduced by the same thread
// blocks, at this multiple of the bus rate:
constexpr double kOwnSliceRate = 1.75;
// and the pipeline of chunks fills over the first bytes.
struct Ramp {
  Seconds full;
  Bytes until;
};
constexpr Ramp kRingRamp{{10e-6}, {8 * kMiB}};
constexpr Ramp kNvlsRamp{{70e-6}, {32 * kMiB}};
constexpr Ramp kAllToAllRamp{{11e-6}, {16 * kMiB}};
// From this buffer on an all-to-all's messages are past what LL carries, and
// its step is one of Simple. Source: NCCL 2.28.9 src/enqueue.cc, 16 KiB a
// channel; latencies of src/graph/tuning.cc.
constexpr Bytes kPastLl{256 * kKiB};
// All-to-all reaches this share of the ring's rate inside a node.
constexpr double kAllToAllShare = 0.9;

// Point to point: launch to arrival, inside a node 8 to 15 us and over RDMA 15
// to 30 us; each further peer across the network is one more post.
// Source: NCCL 2.28.9 src/enqueue.cc and published nccl-tests sendrecv logs.
constexpr Seconds kPeerStart{11e-6};
constexpr Seconds kNetworkPeerStart{22e-6};
constexpr Seconds kPost{1e-6};

Seconds ramp(const Ramp& ramp, Bytes bytes) {
  return ramp.full * std::min(1.0, bytes / ramp.until);
}

/// A slice of its own never leaves the device, so the network does not slow it.
Seconds own_slice(Bytes bytes, const Span& span) {
  const BytesPerSecond rate =
      span.local.value > 0 ? span.local : ring_rate(span);
  return bytes / (rate * (kOwnSliceRate * span.ranks));
}

/// NCCL's step latencies fit Hopper and PCIe; other NVLink generations take
/// `ring_latency_factor` of them.
double latency_factor(const Span& span, const Calibration& calibration) {
  return span.local_kind == LinkKind::pcie
             ? 1.0
             : calibration.ring_latency_factor.value;
}

/// Rings inside a node run at `ring_bandwidth_factor` of what NCCL plans.
Span attained_by_rings(Span span, const Calibration& calibration) {
  span.local = span.local * calibration.ring_bandwidth_factor.value;
  return span;
}

Seconds corrected(const NcclPlan& plan, Bytes bytes, const Span& span,
                  const Calibration& calibration) {
  const double factor = latency_factor(span, calibration);
  const Seconds moved = plan.transport + plan.transfer;
  switch (plan.algorithm) {
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
      return plan.latency + moved + ramp(kNvlsRamp, bytes);
    case Algorithm::tree:
      return plan.latency * factor + moved;
    case Algorithm::ring:
    case Algorithm::pairwise:
      break;
  }
  const Seconds ring = plan.latency * factor + moved;
  if (plan.protocol == Protocol::ll) return ring;
  return ring + ramp(kRingRamp, bytes) + own_slice(bytes, span);
}

/// The quickest of all that NCCL could run.
CollectiveChoice choose_nccl(const Collective& collective, const Span& span,
                             const Calibration& calibration) {
  const Bytes bytes = collective.bytes;
  const Span rings = attained_by_rings(span, calibration);
  CollectiveChoice best;
  best.time = Seconds{std::numeric_limits<double>::infinity()};
  const auto consider = [&](const NcclPlan& plan) {
    const Seconds time = corrected(plan, bytes, span, calibration);
    if (time < best.time) best = {plan.algorithm, plan.protocol, time};
  };
  const bool plans_all =
      collective.op == CollectiveOp::all_reduce &&
      (collective.rings == Rings::planned || span.nodes == 1);
  for (const Protocol protocol :
       {Protocol::ll, Protocol::ll128, Protocol::simple}) {
    if (!can_run(protocol, span)) continue;
    consider(plan_ring(collective.op, bytes, protocol, rings));
    if (plans_all) consider(plan_tree(bytes, protocol, span));
  }
  if (plans_all && can_run_nvls(span)) consider(plan_nvls(bytes, span));
  return best;
}

/// What a step of Simple takes over one of LL.
Seconds simple_over_ll(const Span& span, const Calibration& calibration) {
  constexpr double kMicro = 1e-6;
  const nccl::PerProtocol& step = span.local_kind == LinkKind::pcie
                                      ? nccl::kPcieStep.ring
                                      : nccl::kNvlinkStep.ring;
  return Seconds{(step.back() - step.front()) * kMicro} *
         latency_factor(span, calibration);
}

/// Every rank sends S / n to each other: the part that stays in the node at
/// the links' rate, the rest through the rank's share of the NICs.
Seconds price_all_to_all(Bytes bytes, const Span& span,
                         const Calibration& calibration) {
  const double n = span.ranks;
  const double inside = (span.per_node - 1) / n;
  const double outside = (n - span.per_node) / n;
  Seconds time{calibration.all_to_all_start.value};
  time += own_slice(bytes, span) + ramp(kAllToAllRamp, bytes);
  time += ramp({simple_over_ll(span, calibration), kPastLl}, bytes);
  if (inside > 0) time += bytes / (span.local * (kAllToAllShare / inside));
  if (outside > 0) {
    time += kNetworkPeerStart + span.hop + kPost * (n - span.per_node);
    time += bytes / (span.to_peer * (1 / outside));
  }
  return time;
}

/// To one peer, while every other device sends to its own.
Seconds price_send(Bytes bytes, const Span& span) {
  if (span.nodes > 1)
    return kNetworkPeerStart + span.hop + bytes / span.to_peer;
  return kPeerStart + bytes / (span.local * kAllToAllShare);
}

/// Over one level of links between hosts' processes: every round starts, and
/// passes its bytes through it.
Seconds price_rounds(const Collective& collective, const Level& level) {
  const int around = collective.op == CollectiveOp::all_reduce ? 2 : 1;
  const double rounds = collective.op == CollectiveOp::send_receive
                            ? 1
                            : around * (collective.group.size - 1.0);
  return level.latency * rounds +
         sent_bytes(collective) / (level.bandwidth * level.achieved);
}

/// Ranks that are threads or processes of hosts without devices: the slowest
/// level they span.
Seconds price_on_hosts(const Collective& collective,
                       const ClusterSpec& cluster) {
  Seconds slowest{};
  const std::size_t widest = level_spanned(collective.group, cluster);
  for (std::size_t i = 0; i <= widest; ++i)
    slowest = std::max(slowest, price_rounds(collective, cluster.levels[i]));
  return slowest;
}

}  // namespace

CollectiveChoice choose(const Collective& collective, const Machine& machine) {
  require(collective.group.size >= 1, "a collective has a member");
  if (collective.group.size == 1) return {};
  if (machine.cluster.levels.front().kind == LinkKind::memory)
    return {Algorithm::ring, Protocol::simple,
            price_on_hosts(collective, machine.cluster)};
  Span span = span_of(collective.group, machine);
  if (collective.rings == Rings::one_nic && span.per_node > 1)
    span.across = span.one_nic;
  switch (collective.op) {
    case CollectiveOp::all_to_all:
      return {Algorithm::pairwise, Protocol::simple,
              price_all_to_all(collective.bytes, span, machine.calibration)};
    case CollectiveOp::send_receive:
      return {Algorithm::pairwise, Protocol::simple,
              price_send(collective.bytes, span)};
    case CollectiveOp::all_reduce:
    case CollectiveOp::all_gather:
    case CollectiveOp::reduce_scatter:
      break;
  }
  return choose_nccl(collective, span, machine.calibration);
}

std::string_view to_text(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::ring:
      return "ring";
    case Algorithm::tree:
      return "tree";
    case Algorithm::nvls:
      return "nvls";
    case Algorithm::nvls_tree:
      return "nvls-tree";
    case Algorithm::pairwise:
      break;
  }
  return "pairwise";
}

std::string_view to_text(Protocol protocol) {
  switch (protocol) {
    case Protocol::ll:
      return "ll";
    case Protocol::ll128:
      return "ll128";
    case Protocol::simple:
      break;
  }
  return "simple";
}

}  // namespace ztplan
