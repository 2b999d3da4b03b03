#include <algorithm>

#include "strategy/layout.h"
#include "strategy/recomputed.h"
#include "strategy/stage_holdings.h"

namespace ztplan {
namespace {

// CUDA context with lazily loaded kernels: 0.47 GiB measured on an A100 with
// PyTorch 2.1. Source: stas00/ml-engineering, training/performance.
constexpr Bytes kContext{512 * kMiB};

// Kernels were all loaded before CUDA 11.7: 0.92 GiB then, on the same A100;
// BigScience's runs of 2021 note about 1.1 GB (experiments/tr3m-1B3.md).
constexpr Bytes kWholeContext{1'100'000'000};

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

constexpr const char* kNccl = "NCCL, src/init.cc (default buffer sizes)";
constexpr const char* kNcclPool = "NCCL, src/proxy.cc (shared buffers)";
constexpr const char* kTorch = "PyTorch, notes/cuda.rst";

bool is_wide(LinkKind kind) {
  return kind == LinkKind::nvlink || kind == LinkKind::xgmi;
}

bool has_wide_workspace(const DeviceSpec& device) {
  return device.architecture == "Hopper" || device.architecture == "Blackwell";
}

/// Tensors that a step allocates and frees again, in many sizes. Buffers are
/// whole blocks of one size and leave no gaps.
bool comes_and_goes(const Holding& holding) {
  const bool stays =
      holding.from == kWholeStep.from && holding.until == kWholeStep.until;
  return holding.tier == Tier::device && !stays &&
         holding.term != Term::buffers;
}

Bytes most_in_motion(const Ledger& book) {
  PhaseSums sums;
  for (const Holding& holding : book) {
    if (comes_and_goes(holding)) sums.add(holding);
  }
  return std::ranges::max(sums.totals());
}

/// Receive buffers of a stage, two for each neighbour: one is read while the
/// next fills. In a V a neighbour sends activations and gradients.
void hold_receives(const Place& p, Ledger& book) {
  const int last = p.strategy.pipeline - 1;
  const bool is_v = folds(p.strategy);
  const bool wraps = p.strategy.virtual_stages > 1 && last > 0 && !is_v;
  const std::int64_t before = p.stage > 0 || wraps ? 1 : 0;
  const std::int64_t after = p.stage < last || wraps ? 1 : 0;
  const std::int64_t bytes =
      (is_v ? 4 : 2) * (before + after) * p.sizes.boundary.value;
  hold(book,
       on_device(Term::buffers, bytes, kPasses, "pipeline receive buffers",
                 "Megatron-LM, core/pipeline_parallel/p2p_communication.py"));
}

void hold_buckets(const Place& p, Ledger& book) {
  if (p.strategy.data * p.strategy.context == 1) return;
  const bool is_sharded = p.shards_parameters();
  const std::int64_t below = overlaps_reduction(p.engine, p.strategy)
                                 ? p.keeps.buckets_beside
                                 : p.keeps.buckets;
  // Under a pipeline the engine's own reduction adds one to that of the
  // optimizer: DeepSpeed, runtime/pipe/engine.py (_exec_reduce_grads).
  const bool adds_one = p.keeps.groups_stages && p.strategy.pipeline > 1 &&
                        p.strategy.zero == 1 && below > 0;
  const std::int64_t count =
      is_sharded ? p.keeps.buckets_sharded : below + (adds_one ? 1 : 0);
  const std::int64_t bucket =
      p.strategy.tuning.bucket.value_or(p.engine.bucket_elements);
  const std::int64_t elements = p.keeps.allocates_whole_bucket
                                    ? bucket
                                    : std::min(bucket, p.share.trained());
  const Phase from = is_sharded ? Phase::forward : Phase::loss;
  hold(book,
       on_device(Term::buffers, p.number() * count * elements,
                 {from, Phase::reduce}, "gradient buckets", p.keeps.source));
}

/// What a meter above `allocated` shows beside the tensors.
void hold_shown(Ledger& book, Meter meter, Lifetime life, Bytes bytes,
                const char* what, const char* source) {
  Holding holding = on_device(Term::overhead, bytes.value, life, what, source);
  holding.meter = meter;
  hold(book, holding);
}

/// Gradients that backward allocates find the blocks of equal checkpoints free
/// again, but not those of the many sizes that a layer saves: the allocator
/// reserves them beside all activations. Measured: Llama 2 7B with full
/// recomputation allocates 12.00 bytes a parameter at its peak (dlrover,
/// atorch/examples/llama2); Llama 3 8B without it reserves 16 and more
/// (torchtitan, benchmarks/llama3_h100_202412_torchtitan.md).
void hold_unplaced_gradients(const Place& p, Ledger& book) {
  if (!allocates_gradients(p) || recomputes_layers(p.strategy)) return;
  hold_shown(book, Meter::reserved, kPasses,
             Bytes{p.bytes.gradient * p.owned()}, "reserved for gradients",
             kTorch);
}

/// Blocks that the loss left behind at other lengths: its tensors, the largest
/// that grow with a sequence, fit in none of those of a shorter one. As large
/// as the loss's own, an assumption: LoRA of Qwen 7B and 14B and Yi 34B on
/// samples of all lengths reserves 1.0 to 1.3 times that much beside the step's
/// tensors (modelscope/ms-swift docs/source_en/LLM/Benchmark.md).
void hold_other_lengths(const Place& p, Ledger& book) {
  const bool is_varied = p.setting.workload.lengths == Lengths::varied;
  if (!is_varied || !p.shape.has_head() || p.engine.executed) return;
  hold_shown(book, Meter::reserved, kWholeStep, p.sizes.ends.logits,
             "left by other lengths", kTorch);
}

/// Flat tensors of the last phases, beside the blocks of backward, as far as
/// there is room: the allocator frees what it caches before it fails. Source:
/// torch, c10/cuda/CUDACachingAllocator.cpp (a block is never made of several;
/// release_cached_blocks). From ZeRO 2 on, buckets leave blocks as large.
void hold_flat(const Place& p, Ledger& book) {
  if (!p.keeps.flattens || p.shards_gradients()) return;
  PhaseSums flat, all;
  for (const Holding& holding : book) {
    if (holding.tier != Tier::device) continue;
    all.add(holding);
    if (holding.term == Term::buffers) flat.add(holding);
  }
  const auto totals = flat.totals();
  const auto at = [&](Phase phase) {
    return totals[static_cast<std::size_t>(phase)];
  };
  const Bytes more =
      std::max(at(Phase::reduce), at(Phase::step)) - at(Phase::backward);
  const Bytes left =
      p.setting.cluster.device.memory - std::ranges::max(all.totals());
  hold_shown(book, Meter::reserved, kPasses, std::min(more, left),
             "reserved for flat gradients", kTorch);
}

/// What compression left out of one step is added to the next. Source: Lin et
/// al., arXiv 1712.01887; DeepSpeed, runtime/fp16/onebit/adam.py (worker_error,
/// server_error).
void hold_error_feedback(const Place& p, Ledger& book) {
  const Compression compression = p.strategy.tuning.compression;
  if (compression == Compression::topk)
    hold(book, on_device(Term::buffers, kFp32Bytes * p.share.trained(),
                         kWholeStep, "error feedback", "arXiv 1712.01887"));
  if (compression != Compression::one_bit) return;
  const std::int64_t ranks = std::int64_t{p.strategy.data} * p.strategy.context;
  hold(book, on_device(Term::buffers,
                       kFp32Bytes * (p.share.trained() +
                                     divide_up(p.share.trained(), ranks)),
                       kWholeStep, "error feedback of workers and server",
                       "DeepSpeed, runtime/fp16/onebit/adam.py"));
}

struct Communicator {
  const char* what;
  Bytes bytes;
  const char* source;
};
// A rank is in eleven groups at most.
using Communicators = boost::container::static_vector<Communicator, 11>;

/// One for each group a rank belongs to. All-reduces over trees have more
/// peers than rings have. The gradient norm is summed over all ranks, which the
/// data-parallel ones may be.
Communicators communicators(const ClusterSpec& cluster, const Strategy& s,
                            const EngineMemory& keeps) {
  const bool wide =
      !cluster.levels.empty() && is_wide(cluster.levels.front().kind);
  const Bytes ring = kChannel * (wide ? kWideChannels : kNarrowChannels);
  const Bytes tree = ring * kTreePeers;
  const int ranks = s.data * s.context;
  Communicators all;
  const auto add = [&](bool there, const char* what, Bytes bytes) {
    const char* source = bytes == kPointToPoint ? kNcclPool : kNccl;
    if (there) all.push_back({what, bytes, source});
  };
  add(s.tensor > 1, "tensor communicator", s.sequence_parallel ? ring : tree);
  add(ranks > 1, "data communicator", s.zero == 0 ? tree : ring);
  add(s.zero > 0 && zero_group(s) < ranks, "replica communicator", tree);
  add(s.context > 1, "context communicator", kPointToPoint);
  add(s.pipeline > 1, "pipeline communicator", kPointToPoint);
  add(s.expert > 1, "expert communicator", kPointToPoint);
  add(s.expert_tensor > 1, "expert tensor communicator", ring);
  add(expert_cut(s) > 1 && expert_data(s) > 1, "expert data communicator",
      ring);
  add(devices(s) > ranks, "world communicator", ring);
  // DeepSpeed, runtime/pipe/topology.py (PipelineParallelGrid): all stages of
  // one copy, over which overflow and norm are summed, and tied layers.
  const bool groups = keeps.groups_stages && s.pipeline > 1;
  add(groups, "communicator of a copy of the model", tree);
  add(groups, "communicator of tied layers", ring);
  return all;
}

}  // namespace

Bytes context_bytes(const Framework& framework) {
  return framework.loads_all_kernels ? kWholeContext : kContext;
}

Bytes communicator_bytes(const ClusterSpec& cluster, const Strategy& s,
                         const EngineMemory& keeps) {
  Bytes sum;
  for (const Communicator& each : communicators(cluster, s, keeps))
    sum += each.bytes;
  return sum;
}

void hold_buffers(const Place& p, Ledger& book) {
  hold_receives(p, book);
  hold_buckets(p, book);
  hold_error_feedback(p, book);
  const Bytes workspace = has_wide_workspace(p.setting.cluster.device)
                              ? kWideWorkspace
                              : kWorkspace;
  hold(book, on_device(Term::buffers, workspace.value, kWholeStep,
                       "cuBLAS workspace", kTorch));
}

void hold_overhead(const Place& p, Ledger& book) {
  hold_shown(book, Meter::reserved, kWholeStep,
             most_in_motion(book) / p.keeps.slack_over,
             "allocator fragmentation", kTorch);
  hold_unplaced_gradients(p, book);
  hold_other_lengths(p, book);
  hold_shown(book, Meter::driver, kWholeStep,
             context_bytes(p.setting.workload.framework), "CUDA context",
             "stas00/ml-engineering");
  for (const Communicator& each :
       communicators(p.setting.cluster, p.strategy, p.keeps))
    hold_shown(book, Meter::driver, kWholeStep, each.bytes, each.what,
               each.source);
  hold_flat(p, book);
}

}  // namespace ztplan
