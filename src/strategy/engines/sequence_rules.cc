// Rules of what is cut along the sequence: Megatron's sequence parallelism,
// ring attention, Ulysses.
#include <fmt/format.h>

#include "strategy/engines/rules.h"

namespace ztplan {
namespace {

constexpr Size kContext = {"cp", &Strategy::context};
constexpr Size kTensor = {"tp", &Strategy::tensor};

bool tensor_missing(const Setting&, const Strategy& s) {
  return s.sequence_parallel && s.tensor == 1;
}

Misfit explain_tensor_missing(const Setting&, const Strategy&) {
  return because("sp=1 cuts the sequence over tensor ranks, and tp is 1",
                 "sp=0, or tp 2");
}

bool sequence_tensor_broken(const Setting& g, const Strategy& s) {
  return s.sequence_parallel &&
         g.workload.sequence % (std::int64_t{s.tensor} * s.context) != 0;
}

Misfit explain_sequence_tensor(const Setting& g, const Strategy& s) {
  const std::int64_t unit = std::int64_t{s.tensor} * s.context;
  return because(
      fmt::format("sequence {} is not a multiple of tp*cp = {}*{} = {} (sp=1)",
                  g.workload.sequence, s.tensor, s.context, unit),
      either("sequence " + nearest_multiples(g.workload.sequence, unit),
             nearest_sizes(kTensor, g.cluster.devices, sequence_tensor_broken,
                           g, s)));
}

bool is_ring(const Strategy& s) {
  return s.context > 1 && s.context_kind == ContextKind::ring;
}

bool is_ulysses(const Strategy& s) {
  return s.context > 1 && s.context_kind == ContextKind::ulysses;
}

bool is_causal(const ModelSpec& model) {
  return any_layer(model,
                   [](const Layer& layer) { return layer.attention.causal; });
}

// A causal ring gives each rank one chunk from either end of the sequence.
std::int64_t ring_chunks(const Setting& g, const Strategy& s) {
  constexpr int kChunksOfCausalRank = 2;
  const std::int64_t ranks = s.context;
  return is_causal(g.model) ? kChunksOfCausalRank * ranks : ranks;
}

bool sequence_context_broken(const Setting& g, const Strategy& s) {
  return is_ring(s) && g.workload.sequence % ring_chunks(g, s) != 0;
}

Misfit explain_sequence_context(const Setting& g, const Strategy& s) {
  const std::int64_t unit = ring_chunks(g, s);
  return because(
      fmt::format("sequence {} is not a multiple of {} chunks on cp {}",
                  g.workload.sequence, unit, s.context),
      either("sequence " + nearest_multiples(g.workload.sequence, unit),
             nearest_sizes(kContext, g.cluster.devices, sequence_context_broken,
                           g, s)));
}

// Heads on one tensor rank, which keeps at least one key/value head.
bool heads_scatter(const Attention& attention, const Strategy& s) {
  const int heads = attention.heads / s.tensor;
  const int kv_heads = std::max(1, key_value_heads(attention) / s.tensor);
  return heads % s.context == 0 &&
         (kv_heads % s.context == 0 || s.context % kv_heads == 0);
}

bool ulysses_broken(const Setting& g, const Strategy& s) {
  if (!is_ulysses(s)) return false;
  return any_layer(g.model, [&](const Layer& layer) {
    return !heads_scatter(layer.attention, s);
  });
}

Misfit explain_ulysses(const Setting& g, const Strategy& s) {
  const Layer* layer = find_layer(g.model, [&](const Layer& each) {
    return !heads_scatter(each.attention, s);
  });
  const int heads = layer->attention.heads / s.tensor;
  const int kv_heads =
      std::max(1, key_value_heads(layer->attention) / s.tensor);
  return because(
      fmt::format("Ulysses scatters {} heads over cp {}: cp must divide them, "
                  "and divide or be divided by the {} key/value heads",
                  heads, s.context, kv_heads),
      fmt::format(
          "cp {}; cp_type=ring, where the engine has it, has no limit of heads",
          legal_sizes(&Strategy::context, heads, ulysses_broken, g, s)));
}

bool ring_eager_broken(const Setting& g, const Strategy& s) {
  return is_ring(s) && g.workload.attention == AttentionKernel::eager;
}

Misfit explain_ring_eager(const Setting&, const Strategy& s) {
  return because(
      fmt::format("a ring over cp {} adds up blocks of attention, which eager "
                  "attention does not make",
                  s.context),
      "attention flash, or cp_type=ulysses, or cp 1");
}

bool positions_broken(const Setting& g, const Strategy&) {
  return g.model.positions == Positions::learned &&
         g.workload.sequence > g.model.position_rows;
}

Misfit explain_positions(const Setting& g, const Strategy&) {
  return because(
      fmt::format("sequence {} is longer than the {} positions that "
                  "{} has learned",
                  g.workload.sequence, g.model.position_rows, g.model.name),
      fmt::format("sequence {}", g.model.position_rows));
}

constexpr Rule kRules[] = {
    {"sequence-parallel-needs-tensor",
     "Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2", tensor_missing,
     explain_tensor_missing},
    {"positions-cover",
     "NVIDIA/Megatron-LM megatron/training/arguments.py: "
     "max_position_embeddings >= seq_length",
     positions_broken, explain_positions},
    {"sequence-tensor",
     "Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2: s/t tokens",
     sequence_tensor_broken, explain_sequence_tensor},
    {"sequence-context",
     "NVIDIA/Megatron-LM megatron/training/arguments.py: seq_length % (2 * "
     "context_parallel_size); Brandon et al. 2023, arXiv 2311.09431",
     sequence_context_broken, explain_sequence_context},
    {"ring-needs-flash", "Liu et al. 2023, arXiv 2310.01889, section 3",
     ring_eager_broken, explain_ring_eager},
    {"ulysses-heads",
     "verl-project/verl issue 1226; Jacobs et al. 2023, arXiv 2309.14509",
     ulysses_broken, explain_ulysses},
};

}  // namespace

std::span<const Rule> sequence_rules() { return kRules; }

}  // namespace ztplan
