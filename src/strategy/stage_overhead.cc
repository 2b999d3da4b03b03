#include <algorithm>
#include <array>

#include "strategy/layout.h"
#include "strategy/stage_holdings.h"

namespace ztplan {
namespace {

// CUDA context with lazily loaded kernels: 0.47 GiB measured on an A100 with
// PyTorch 2.1. Source: stas00/ml-engineering, training/performance.
constexpr Bytes kContext{512 * kMiB};

// cuBLAS keeps a workspace a stream: 8 MiB, 32 MiB from Hopper on.
// Source: PyTorch notes, cuda.rst (cuBLAS workspaces).
constexpr Bytes kWorkspace{8 * kMiB};
constexpr Bytes kWideWorkspace{32 * kMiB};

// One NCCL channel to a ring neighbour: LL 512 KiB, LL128 4.69 MiB, Simple
// 4 MiB. Source: NCCL, src/include/device.h and src/init.cc.
constexpr Bytes kChannel{9'420 * kKiB};
// Rings over NVLink use up to 24 channels, over PCIe or a network about 4; a
// tree has two to three times the peers of a ring. Source: NCCL, src/graph.
constexpr std::int64_t kWideChannels = 24;
constexpr std::int64_t kNarrowChannels = 4;
constexpr std::int64_t kTreePeers = 3;
// Point-to-point communicators share one pool. Source: NCCL, src/proxy.cc.
constexpr Bytes kPointToPoint{64 * kMiB};

// Of tensors that come and go, what fragmentation costs: 3 to 10 % in eager
// runs, 2 % in compiled ones (torchtitan, reserved against allocated).
constexpr std::int64_t kSlackOver = 20;  // one part in

constexpr const char* kNccl = "NCCL, src/init.cc (default buffer sizes)";
constexpr const char* kTorch = "PyTorch, notes/cuda.rst";

bool is_wide(LinkKind kind) {
  return kind == LinkKind::nvlink || kind == LinkKind::xgmi;
}

bool has_wide_workspace(const DeviceSpec& device) {
  return device.architecture == "Hopper" || device.architecture == "Blackwell";
}

/// Tensors that a step allocates and frees again.
bool comes_and_goes(const Holding& holding) {
  return holding.tier == Tier::device &&
         (holding.term == Term::activations || holding.term == Term::logits ||
          holding.term == Term::gathered || holding.term == Term::buffers);
}

Bytes most_in_motion(const Ledger& book) {
  std::array<Bytes, kPhases> sums{};
  for (const Holding& holding : book) {
    if (!comes_and_goes(holding)) continue;
    for (int i = static_cast<int>(holding.from);
         i <= static_cast<int>(holding.until); ++i)
      sums[static_cast<std::size_t>(i)] += holding.bytes;
  }
  return *std::ranges::max_element(sums);
}

/// Receive buffers of a stage, two for each neighbour: one is read while the
/// next fills. Source: Megatron-LM, pipeline_parallel/p2p_communication.py.
void hold_receives(const Place& p, Ledger& book) {
  const int last = p.strategy.pipeline - 1;
  const bool wraps = p.strategy.virtual_stages > 1 && last > 0;
  const int before = p.stage > 0 || wraps ? 1 : 0;
  const int after = p.stage < last || wraps ? 1 : 0;
  const std::int64_t receives = 2 * (before + after);
  hold(book, {Term::buffers, Tier::device, receives * p.sizes.boundary,
              Phase::forward, Phase::backward, "pipeline receive buffers",
              "Megatron-LM, core/pipeline_parallel/p2p_communication.py"});
}

void hold_buckets(const Place& p, Ledger& book) {
  const Strategy& s = p.strategy;
  if (s.data * s.context == 1) return;
  const bool is_sharded = s.zero >= 3;
  const std::int64_t count =
      is_sharded ? p.keeps.buckets_sharded : p.keeps.buckets;
  const std::int64_t elements =
      std::min(p.engine.bucket_elements, p.share.total());
  const std::int64_t number = activation_bytes(p.setting.workload.precision);
  const Phase from = is_sharded ? Phase::forward : Phase::loss;
  hold(book, {Term::buffers,
              Tier::device,
              {number * count * elements},
              from,
              Phase::reduce,
              "gradient buckets",
              p.keeps.source});
}

}  // namespace

Bytes context_bytes() { return kContext; }

Bytes communicator_bytes(const ClusterSpec& cluster, const Strategy& s) {
  const bool wide =
      !cluster.levels.empty() && is_wide(cluster.levels.front().kind);
  const Bytes ring = kChannel * (wide ? kWideChannels : kNarrowChannels);
  const Bytes tree = ring * kTreePeers;
  Bytes sum;
  if (s.tensor > 1) sum += s.sequence_parallel ? ring : tree;
  if (s.data * s.context > 1) sum += s.zero == 0 ? tree : ring;
  if (s.zero > 0 && zero_group(s) < s.data * s.context) sum += tree;
  if (s.context > 1) sum += kPointToPoint;
  if (s.pipeline > 1) sum += kPointToPoint;
  if (s.expert > 1) sum += kPointToPoint;
  if (s.expert > 1 && expert_data(s) > 1) sum += ring;
  return sum;
}

void hold_buffers(const Place& p, Ledger& book) {
  hold_receives(p, book);
  hold_buckets(p, book);
  const Bytes workspace = has_wide_workspace(p.setting.cluster.device)
                              ? kWideWorkspace
                              : kWorkspace;
  hold(book, {Term::buffers, Tier::device, workspace, Phase::forward,
              Phase::step, "cuBLAS workspace", kTorch});
}

void hold_overhead(const Place& p, Ledger& book) {
  const Bytes slack = most_in_motion(book) / kSlackOver;
  hold(book, {Term::overhead, Tier::device, slack, Phase::forward, Phase::step,
              "allocator fragmentation", kTorch, Meter::reserved});
  hold(book,
       {Term::overhead, Tier::device, kContext, Phase::forward, Phase::step,
        "CUDA context", "stas00/ml-engineering", Meter::driver});
  hold(book, {Term::overhead, Tier::device,
              communicator_bytes(p.setting.cluster, p.strategy), Phase::forward,
              Phase::step, "communicators", kNccl, Meter::driver});
}

}  // namespace ztplan
