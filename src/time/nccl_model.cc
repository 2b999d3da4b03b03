#include "time/nccl_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "time/nccl_tables.h"

namespace ztplan {
namespace {

constexpr double kMicro = 1e-6;
constexpr double kGiga = 1e9;

BytesPerSecond giga(double rate) { return {rate * kGiga}; }
Seconds micro(double time) { return {time * kMicro}; }

const nccl::Caps& caps_of(const Span& span) {
  return nccl::kCaps.at(static_cast<std::size_t>(span.generation));
}

std::size_t index_of(Protocol protocol) {
  return static_cast<std::size_t>(protocol);
}

/// Row of the tables by scale: one node, two, more.
std::size_t scale_of(const Span& span) {
  return static_cast<std::size_t>(std::min(span.nodes, 3) - 1);
}

// A group across nodes finds about one channel per NIC of its members.
constexpr int kMostChannels = 16, kFewestChannels = 2;

int channels_of(const Span& span) {
  if (span.nodes == 1) return caps_of(span).channels;
  return std::clamp(span.per_node, kFewestChannels, kMostChannels);
}

BytesPerSecond per_channel(double cap, const Span& span) {
  return giga(cap * channels_of(span));
}

BytesPerSecond ll_limit(const Span& span) {
  return giga(span.nodes == 1 ? caps_of(span).ll_one_node
                              : nccl::kLlAcrossNodes.at(scale_of(span)));
}

const nccl::StepLatency& local_steps(const Span& span) {
  return span.local_kind == LinkKind::pcie ? nccl::kPcieStep
                                           : nccl::kNvlinkStep;
}

/// What the transport adds to a network step: Simple flushes, so twice.
Seconds hop_of(Protocol protocol, const Span& span) {
  return span.hop * (protocol == Protocol::simple ? 2 : 1);
}

/// Steps of a ring of `n`: all-reduce goes round twice.
int rounds(CollectiveOp op) { return op == CollectiveOp::all_reduce ? 2 : 1; }

Seconds ring_network_step(Protocol protocol, const Span& span) {
  const nccl::PerProtocol& steps =
      span.per_node == 1 ? nccl::kNetworkStep.tree : nccl::kNetworkStep.ring;
  return micro(steps.at(index_of(protocol)));
}

Seconds ring_local_step(Protocol protocol, const Span& span) {
  const Seconds step = micro(local_steps(span).ring.at(index_of(protocol)));
  if (span.nodes == 1) return step;
  const double posts = protocol == Protocol::simple ? nccl::kSimplePosts : 1;
  return std::max(step, micro(nccl::kNetworkPost) * posts);
}

// Long Simple all-reduces across nodes take this much more latency.
constexpr double kLongSimple = 1.4, kLongSimpleVolta = 1.9;
constexpr std::int64_t kLongPerChannelAndRank = 64;  // bytes

double long_simple_factor(CollectiveOp op, Bytes bytes, Protocol protocol,
                          const Span& span) {
  const std::int64_t threshold = kLongPerChannelAndRank * channels_of(span) *
                                 static_cast<std::int64_t>(span.ranks);
  if (op != CollectiveOp::all_reduce || protocol != Protocol::simple ||
      span.nodes == 1 || bytes.value < threshold)
    return 1;
  return span.generation == Generation::volta ? kLongSimpleVolta : kLongSimple;
}

/// Steps of a ring that leave the node.
double crossings(CollectiveOp op, const Span& span) {
  return rounds(op) * (span.nodes - 1.0);
}

Seconds ring_latency(CollectiveOp op, Protocol protocol, const Span& span) {
  const double steps = rounds(op) * (span.ranks - 1.0);
  const double across = crossings(op, span);
  return micro(nccl::kRingBase.at(index_of(protocol))) +
         ring_local_step(protocol, span) * (steps - across) +
         ring_network_step(protocol, span) * across;
}

BytesPerSecond ring_bus_rate(Protocol protocol, const Span& span) {
  constexpr double kLlShare = 0.5, kLl128Share = 0.92;  // of bytes are payload
  const BytesPerSecond bus = ring_rate(span);
  switch (protocol) {
    case Protocol::ll:
      return std::min(bus * kLlShare, ll_limit(span));
    case Protocol::ll128:
      return std::min(
          bus * kLl128Share,
          per_channel(caps_of(span).ring_ll128.at(scale_of(span)), span));
    case Protocol::simple:
      break;
  }
  return bus;
}

/// Factor of a tree at this size, linear between the table's powers of two: a
/// step of the table would make a longer message faster.
double tree_factor(const nccl::TreeFactors& factors, Bytes bytes) {
  constexpr int kFirst = 6;  // log2 of the first entry's bytes
  const auto size = static_cast<std::uint64_t>(
      std::max<std::int64_t>(bytes.value, std::int64_t{1} << kFirst));
  const int log2 = static_cast<int>(std::bit_width(size)) - 1;
  const std::size_t i = static_cast<std::size_t>(log2 - kFirst);
  if (i + 1 >= factors.size()) return factors.back();
  const double whole = static_cast<double>(std::uint64_t{1} << log2);
  const double part = static_cast<double>(size) / whole - 1;
  return factors.at(i) + part * (factors.at(i + 1) - factors.at(i));
}

double tree_factor(Protocol protocol, Bytes bytes) {
  switch (protocol) {
    case Protocol::ll:
      return tree_factor(nccl::kTreeLl, bytes);
    case Protocol::ll128:
      return tree_factor(nccl::kTreeLl128, bytes);
    case Protocol::simple:
      break;
  }
  return tree_factor(nccl::kTreeSimple, bytes);
}

/// Two nodes halve what a tree sends over the network: each is the leaf of one
/// tree and the root of the other.
BytesPerSecond tree_graph_rate(const Span& span) {
  const BytesPerSecond across = span.across * (span.nodes == 2 ? 2.0 : 1.0);
  if (span.nodes == 1) return span.local;
  return span.local.value > 0 ? std::min(span.local, across) : across;
}

BytesPerSecond tree_bus_rate(Protocol protocol, const Span& span) {
  constexpr double kTreeShare = 0.92, kLlShare = 1 / 3.8;
  constexpr double kLl128OneNode = 7.0 / 9, kLl128Across = 120.0 / 128;
  const nccl::Caps& caps = caps_of(span);
  const std::size_t scale = scale_of(span);
  const BytesPerSecond bus =
      std::min(tree_graph_rate(span) * kTreeShare,
               per_channel(caps.tree_simple.at(scale), span));
  switch (protocol) {
    case Protocol::ll:
      return std::min(bus * kLlShare, ll_limit(span));
    case Protocol::ll128:
      return std::min(bus * (span.nodes == 1 ? kLl128OneNode : kLl128Across),
                      per_channel(caps.tree_ll128.at(scale), span));
    case Protocol::simple:
      break;
  }
  return bus;
}

/// Steps between nodes of a tree, up and down.
double tree_crossings(const Span& span) {
  return 2 * std::log2(static_cast<double>(span.nodes));
}

Seconds tree_latency(Protocol protocol, const Span& span) {
  const std::size_t i = index_of(protocol);
  const double inside = 2.0 * (span.per_node - 1);
  return micro(nccl::kTreeBase.at(i) + inside * local_steps(span).tree.at(i) +
               tree_crossings(span) * nccl::kNetworkStep.tree.at(i));
}

Seconds nvls_latency(const Span& span) {
  return micro(nccl::kNvlsLatency +
               tree_crossings(span) * nccl::kNvlsTreeNetworkStep);
}

/// Every channel pulls once from each of p devices and twice from its head, so
/// p channels share the link p + 1 ways.
BytesPerSecond nvls_bus_rate(const Span& span) {
  const nccl::Caps& caps = caps_of(span);
  const double p = span.per_node;
  const BytesPerSecond channel =
      std::min(span.local / (p + 1), giga(caps.nvls_per_channel));
  const BytesPerSecond inside =
      channel * (2 * caps.nvls_efficiency * (p - 1) / p);
  if (span.nodes == 1) return std::min(inside, giga(caps.nvls_per_channel)) * p;
  const BytesPerSecond across =
      span.across * ((span.nodes == 2 ? 2.0 : 1.0) / p);
  return std::min({inside, across, giga(caps.nvls_tree.at(scale_of(span)))}) *
         p;
}

}  // namespace

NcclPlan plan_ring(CollectiveOp op, Bytes bytes, Protocol protocol,
                   const Span& span) {
  // A bus rate counts each byte once per link: n / steps of it is the buffer's.
  const double n = span.ranks;
  const BytesPerSecond rate =
      ring_bus_rate(protocol, span) * (n / (rounds(op) * (n - 1)));
  const double longer = long_simple_factor(op, bytes, protocol, span);
  return {.algorithm = Algorithm::ring,
          .protocol = protocol,
          .latency = ring_latency(op, protocol, span) * longer,
          .transport = hop_of(protocol, span) * (longer * crossings(op, span)),
          .transfer = bytes / rate};
}

NcclPlan plan_tree(Bytes bytes, Protocol protocol, const Span& span) {
  const BytesPerSecond rate =
      tree_bus_rate(protocol, span) * (tree_factor(protocol, bytes) / 2);
  return {.algorithm = Algorithm::tree,
          .protocol = protocol,
          .latency = tree_latency(protocol, span),
          .transport = hop_of(protocol, span) * tree_crossings(span),
          .transfer = bytes / rate};
}

NcclPlan plan_nvls(Bytes bytes, const Span& span) {
  const double n = span.ranks;
  const BytesPerSecond rate = nvls_bus_rate(span) * (n / (2 * (n - 1)));
  return {.algorithm = span.nodes == 1 ? Algorithm::nvls : Algorithm::nvls_tree,
          .protocol = Protocol::simple,
          .latency = nvls_latency(span),
          .transport = hop_of(Protocol::simple, span) * tree_crossings(span),
          .transfer = bytes / rate};
}

bool can_run_nvls(const Span& span) {
  constexpr int kFewest = 2;  // channels, one per member
  return span.in_network_reduction && span.per_node >= kFewest &&
         caps_of(span).nvls_efficiency > 0;
}

bool can_run(Protocol protocol, const Span& span) {
  return protocol != Protocol::ll128 || span.nvlink_machine;
}

}  // namespace ztplan
