#include "strategy/ledger.h"

#include <algorithm>

#include "base/error.h"
#include "strategy/native_stage.h"
#include "strategy/schedule.h"
#include "strategy/stage_holdings.h"

namespace ztplan {
namespace {

// Megatron-LM, core/distributed/param_and_grad_buffer.py: shards start at
// multiples of 128 elements.
constexpr std::int64_t kAlignment = 128;

/// lcm(parts, 128): 128 has no divisors but powers of two.
std::int64_t alignment(std::int64_t parts) {
  const std::int64_t power_of_two = parts & -parts;
  return parts * (kAlignment / std::min(power_of_two, kAlignment));
}

/// A tied head is the embedding where one stage holds both.
void add_ends(const ModelSpec& model, const EndShare& ends,
              const StageShape& shape, StageShare& share) {
  const bool has_embedding = shape.has_embedding();
  const bool is_shared = model.tied && has_embedding;
  if (has_embedding) share.ends += ends.embedding;
  if (shape.has_head()) share.ends += ends.norm + (is_shared ? 0 : ends.head);
  if (share.ends > 0)
    share.largest_end = ends.embedding - ends.persistent_embedding;
  if (has_embedding) share.all.persistent += ends.persistent_embedding;
  if (shape.has_head()) share.all.persistent += ends.persistent_norm;
}

/// Fills in which parameters ZeRO 3 leaves whole. Where their sum over the
/// model is limited, every layer keeps an equal part. Source: DeepSpeed,
/// runtime/zero/parameter_offload.py, mark_persistent_parameters.
void find_persistent(const Setting& setting, const Engine& engine,
                     const LayerKinds& kinds, const Strategy& strategy,
                     StageSizes& sizes) {
  const ModelSpec& model = setting.model;
  const std::int64_t most =
      strategy.tuning.persistent.value_or(engine.memory->persistent);
  if (most == 0) return;
  EndShare& ends = sizes.end_share;
  ends.persistent_embedding =
      small_elements(embedding_tensors(model, strategy, sizes.vocab), most);
  ends.persistent_norm =
      small_elements(norm_tensors(model, strategy, sizes.vocab), most);
  for (std::size_t i = 0; i < kinds.kinds.size(); ++i)
    sizes.shares[i].persistent = small_elements(
        layer_tensors(model, kinds.kinds[i], setting.workload, strategy), most);
  std::int64_t total = ends.persistent_embedding + ends.persistent_norm;
  for (const int kind : kinds.kind_of_layer)
    total += sizes.shares[static_cast<std::size_t>(kind)].persistent;
  const std::int64_t limit = strategy.tuning.persistent_total.value_or(total);
  if (total <= limit) return;
  const double kept = static_cast<double>(limit) / static_cast<double>(total);
  const auto shrink = [&](std::int64_t& part) {
    part = static_cast<std::int64_t>(static_cast<double>(part) * kept);
  };
  shrink(ends.persistent_embedding);
  shrink(ends.persistent_norm);
  for (LayerShare& share : sizes.shares) shrink(share.persistent);
}

void list_tensors(const Setting& setting, const LayerKinds& kinds,
                  const Strategy& strategy, StageSizes& sizes) {
  const ModelSpec& model = setting.model;
  for (const Layer& kind : kinds.kinds)
    sizes.tensors.push_back(
        layer_tensors(model, kind, setting.workload, strategy));
  sizes.embedding_tensors = embedding_tensors(model, strategy, sizes.vocab);
  sizes.norm_tensors = norm_tensors(model, strategy, sizes.vocab);
}

Place place_of(const Setting& setting, const Engine& engine,
               const StageSizes& sizes, const StageShape& shape,
               const Strategy& strategy, int stage, const StageShare& share) {
  const EngineMemory& keeps = *engine.memory;
  return {.setting = setting,
          .engine = engine,
          .keeps = keeps,
          .sizes = sizes,
          .shape = shape,
          .strategy = strategy,
          .stage = stage,
          .micro_batches = micro_batches(strategy, setting.workload),
          .share = share,
          .bytes = state_bytes(setting.workload, keeps, strategy),
          .shard = shard_of(share.all, strategy)};
}

bool is_held(const Holding& holding, Phase phase) {
  return holding.from <= phase && phase <= holding.until;
}

Bytes most(const std::array<Bytes, kPhases>& bytes) {
  return *std::ranges::max_element(bytes);
}

int devices_of_node(const ClusterSpec& cluster) {
  return std::min(cluster.devices_per_node, cluster.devices);
}

using TierSums = std::array<std::array<Bytes, kPhases>, 3>;

TierSums tier_sums(const Ledger& holdings) {
  std::array<PhaseSums, 3> tiers;
  for (const Holding& holding : holdings)
    tiers[static_cast<std::size_t>(holding.tier)].add(holding);
  return {tiers[0].totals(), tiers[1].totals(), tiers[2].totals()};
}

}  // namespace

std::string_view to_text(Term term) {
  constexpr std::array<std::string_view, kTerms> kNames = {
      "parameters", "gradients", "optimizer", "activations",
      "logits",     "gathered",  "buffers",   "overhead"};
  return kNames[static_cast<std::size_t>(term)];
}

std::string_view to_text(Phase phase) {
  constexpr std::array<std::string_view, kPhases> kNames = {
      "forward", "loss", "backward", "reduce", "step"};
  return kNames[static_cast<std::size_t>(phase)];
}

StageSizes stage_sizes(const Setting& setting, const Engine& engine,
                       const LayerKinds& kinds, const Strategy& strategy) {
  const ModelSpec& model = setting.model;
  StageSizes sizes;
  sizes.vocab = padded_vocab(engine, model, strategy.tensor);
  const EngineMemory& keeps = *engine.memory;
  if (engine.executed)
    sizes.workspace = native_workspace(model, setting.workload, strategy);
  for (const Layer& kind : kinds.kinds) {
    LayerActivations one =
        engine.executed
            ? native_activations(model, kind, setting.workload, strategy)
            : layer_activations(model, kind, setting.workload, strategy);
    if (keeps.unfused && !setting.workload.framework.fused_modules)
      one.saved += unfused_activations(model, kind, setting.workload, strategy);
    sizes.activations.push_back(one);
    sizes.shares.push_back(
        layer_share(model, kind, setting.workload, strategy));
  }
  sizes.ends =
      engine.executed
          ? native_ends(model, setting.workload, strategy, sizes.vocab)
          : end_activations(model, setting.workload, strategy, sizes.vocab,
                            loss_kernel(keeps, setting.workload));
  sizes.end_share = end_share(model, strategy, sizes.vocab);
  sizes.boundary = boundary_bytes(model, setting.workload, strategy);
  find_persistent(setting, engine, kinds, strategy, sizes);
  if (keeps.pinned == Pinned::parameters)
    list_tensors(setting, kinds, strategy, sizes);
  return sizes;
}

StageShare stage_share(const Setting& setting, const StageSizes& sizes,
                       const StageShape& shape) {
  StageShare sum;
  for (const ChunkShape& chunk : shape.chunks) {
    for (std::size_t kind = 0; kind < chunk.layers_of_kind.size(); ++kind) {
      const std::int64_t layers = chunk.layers_of_kind[kind];
      if (layers == 0) continue;
      const LayerShare& one = sizes.shares[kind];
      sum.all += layers * one;
      const std::int64_t layer_size = one.dense + one.experts;
      sum.largest_layer = std::max(sum.largest_layer, layer_size);
      sum.largest_gathered =
          std::max(sum.largest_gathered, layer_size - one.persistent);
      sum.largest_trained = std::max(sum.largest_trained,
                                     one.trained_dense + one.trained_experts);
    }
  }
  add_ends(setting.model, sizes.end_share, shape, sum);
  sum.all += end_layer_share(setting.workload, sum.ends);
  return sum;
}

std::int64_t padded_shard(std::int64_t parameters, std::int64_t parts) {
  require(parts >= 1, "padded_shard: at least one part");
  if (parts == 1) return parameters;
  return round_up(parameters, alignment(parts)) / parts;
}

LayerShare shard_of(const LayerShare& share, const Strategy& strategy) {
  const std::int64_t ranks = zero_group(strategy);
  const std::int64_t expert_ranks = expert_zero_group(strategy);
  return {padded_shard(share.dense, ranks),
          padded_shard(share.experts, expert_ranks),
          padded_shard(share.trained_dense, ranks),
          padded_shard(share.trained_experts, expert_ranks)};
}

bool shards_weights(const Workload& workload, const Engine& engine,
                    const Strategy& strategy) {
  return strategy.zero >= kShardedParameters &&
         (workload.quantize == Quantize::none ||
          engine.memory->shards_quantized);
}

bool keeps_stage_whole(const Engine& engine, const Strategy& strategy) {
  return engine.memory->keeps_stage_gathered && strategy.pipeline > 1 &&
         strategy.zero >= kShardedGradients;
}

Bytes quantized_bytes(Quantize quantize, std::int64_t count) {
  // One fp32 scale for 64 weights; or an 8-bit one, and an fp32 one for 256 of
  // those. Source: Dettmers et al. 2023, arXiv 2305.14314, section 3.
  constexpr std::int64_t kBlock = 64, kScaleBlock = 256;
  const std::int64_t blocks = divide_up(count, kBlock);
  switch (quantize) {
    case Quantize::nf4:
      return {divide_up(count, 2) + kFp32Bytes * blocks};
    case Quantize::nf4_double:
      return {divide_up(count, 2) + blocks +
              kFp32Bytes * divide_up(blocks, kScaleBlock)};
    case Quantize::int8:  // scales are a row's: bitsandbytes, LLM.int8()
      return {count};
    case Quantize::none:
      break;
  }
  require(false, "quantized_bytes: weights are quantized");
  return {};
}

bool overlaps_reduction(const Engine& engine, const Strategy& strategy) {
  return strategy.tuning.overlap.value_or(strategy.zero >=
                                          engine.memory->overlaps_from);
}

Bytes travelling_bytes(const Workload& workload, const Strategy& strategy,
                       std::int64_t count) {
  const bool is_narrow =
      workload.framework.narrow_reduction && strategy.zero > 0;
  const Precision usual = is_narrow ? workload.precision : workload.gradient;
  const Precision dtype = strategy.tuning.communication.value_or(usual);
  return {count * activation_bytes(dtype)};
}

std::int64_t expert_zero_group(const Strategy& s) {
  if (s.zero == 0) return 1;
  const std::int64_t all = expert_data(s);
  if (s.shard_group == 0) return all;
  const std::int64_t ranks = std::int64_t{s.data} * s.context;
  return std::max<std::int64_t>(1, all * s.shard_group / ranks);
}

StageBase stage_base(const Setting& setting, const Engine& engine,
                     const StageSizes& sizes, const StageShape& shape,
                     const Strategy& strategy, int stage) {
  StageBase base{stage, stage_share(setting, sizes, shape), {}};
  const Place place =
      place_of(setting, engine, sizes, shape, strategy, stage, base.share);
  hold_activations(place, base.passes);
  hold_loss(place, base.passes);
  hold_boundaries(place, base.passes);
  return base;
}

Ledger ledger(const Setting& setting, const Engine& engine,
              const StageSizes& sizes, const StageShape& shape,
              const Strategy& strategy, const StageBase& base) {
  const Place place =
      place_of(setting, engine, sizes, shape, strategy, base.stage, base.share);
  Ledger book;
  if (engine.executed) {
    hold_native(place, book);
  } else {
    hold_states(place, book);
    hold_gathered(place, book);
    hold_offloaded(place, book);
    hold_buffers(place, book);
  }
  book.insert(book.end(), base.passes.begin(), base.passes.end());
  hold_overhead(place, book);
  return book;
}

Ledger ledger(const Setting& setting, const Engine& engine,
              const StageSizes& sizes, const StageShape& shape,
              const Strategy& strategy, int stage) {
  return ledger(setting, engine, sizes, shape, strategy,
                stage_base(setting, engine, sizes, shape, strategy, stage));
}

Bytes MemoryBreakdown::peak() const {
  Bytes sum;
  for (const Bytes bytes : terms) sum += bytes;
  return sum;
}

std::array<Bytes, kPhases> phase_bytes(const Ledger& holdings, Tier tier) {
  return tier_sums(holdings)[static_cast<std::size_t>(tier)];
}

Fullness fullness(const Ledger& holdings) {
  const TierSums sums = tier_sums(holdings);
  const auto of = [&](Tier tier) {
    return most(sums[static_cast<std::size_t>(tier)]);
  };
  return {of(Tier::device), of(Tier::host), of(Tier::nvme)};
}

Fullness fullness(const MemoryBreakdown& memory) {
  return {memory.peak(), host_taken(memory), memory.nvme};
}

bool outweighs(const StageBase& more, const StageBase& less, Bytes boundary) {
  constexpr int kReceives = 4;
  const StageShare& a = more.share;
  const StageShare& b = less.share;
  if (a.all.dense < b.all.dense || a.all.experts < b.all.experts ||
      a.all.trained_dense < b.all.trained_dense ||
      a.all.trained_experts < b.all.trained_experts || a.ends < b.ends ||
      a.largest_layer < b.largest_layer || a.largest_end < b.largest_end ||
      a.largest_trained < b.largest_trained ||
      a.largest_gathered < b.largest_gathered ||
      a.all.persistent < b.all.persistent)
    return false;
  const auto of_more = phase_bytes(more.passes, Tier::device);
  const auto of_less = phase_bytes(less.passes, Tier::device);
  for (std::size_t i = 0; i < of_more.size(); ++i)
    if (of_more[i] < of_less[i]) return false;
  const auto last = static_cast<std::size_t>(Phase::backward);
  for (std::size_t i = 0; i <= last; ++i)
    if (of_more[i] < of_less[i] + kReceives * boundary) return false;
  return true;
}

MemoryBreakdown estimate_memory(const Ledger& holdings, int stage) {
  const TierSums sums = tier_sums(holdings);
  const auto& device = sums[static_cast<std::size_t>(Tier::device)];
  MemoryBreakdown memory;
  memory.stage = stage;
  for (const Holding& holding : holdings)
    if (holding.tier == Tier::host && holding.meter == Meter::reserved)
      memory.host_rounding += holding.bytes;
  memory.host =
      most(sums[static_cast<std::size_t>(Tier::host)]) - memory.host_rounding;
  memory.nvme = most(sums[static_cast<std::size_t>(Tier::nvme)]);
  memory.peak_phase =
      static_cast<Phase>(std::ranges::max_element(device) - device.begin());
  for (const Holding& holding : holdings) {
    if (holding.tier != Tier::device || !is_held(holding, memory.peak_phase))
      continue;
    memory.terms[static_cast<std::size_t>(holding.term)] += holding.bytes;
    if (holding.meter == Meter::allocated) memory.allocated += holding.bytes;
    if (holding.meter == Meter::reserved) memory.slack += holding.bytes;
  }
  return memory;
}

std::vector<MemoryBreakdown> stage_memory(const Setting& setting,
                                          const Engine& engine,
                                          const Strategy& strategy) {
  const LayerKinds kinds = layer_kinds(setting.model);
  const StageSizes sizes = stage_sizes(setting, engine, kinds, strategy);
  std::vector<MemoryBreakdown> memory;
  int stage = 0;
  for (const StageShape& shape : stage_shapes(kinds, strategy)) {
    memory.push_back(estimate_memory(
        ledger(setting, engine, sizes, shape, strategy, stage), stage));
    ++stage;
  }
  return memory;
}

std::vector<int> fullest_candidates(const std::vector<StageShape>& shapes,
                                    const Strategy& strategy) {
  const bool all = splits_backward(strategy.schedule);
  std::vector<int> stages;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    if (all || i == 0 || shapes[i] != shapes[i - 1])
      stages.push_back(static_cast<int>(i));
  return stages;
}

Bytes host_taken(const MemoryBreakdown& memory) {
  return memory.host + memory.host_rounding;
}

Bytes reserved(const MemoryBreakdown& memory) {
  return memory.allocated + memory.slack;
}

Bytes driver_shown(const MemoryBreakdown& memory) { return memory.peak(); }

Bytes node_bytes(Bytes bytes, const ClusterSpec& cluster) {
  return bytes * devices_of_node(cluster);
}

LargestTensor largest_tensor(const StageSizes& sizes) {
  LargestTensor largest{"layer input", sizes.boundary};
  const auto consider = [&](const char* name, Bytes bytes) {
    if (bytes > largest.bytes) largest = {name, bytes};
  };
  for (const LayerActivations& layer : sizes.activations) {
    consider("MLP input", layer.widest);
    consider("attention scores", layer.attention_scores);
  }
  consider("logits", sizes.ends.fp32_logits);
  return largest;
}

Bytes usable_memory(const ClusterSpec& cluster, double margin) {
  const auto memory = static_cast<double>(cluster.device.memory.value);
  return {static_cast<std::int64_t>(memory * (1 - margin))};
}

}  // namespace ztplan
