// Rules of stages, schedules and of recomputation inside a stage.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/quote.h"
#include "strategy/engines/rules.h"
#include "strategy/recomputed.h"
#include "strategy/schedule.h"
#include "strategy/stages.h"

namespace ztplan {
namespace {

constexpr int kEnds = 2;  // embedding and loss, when each counts as a layer

bool ends_broken(const Setting&, const Strategy& s) {
  return s.ends_as_layers && (s.pipeline == 1 || !s.stage_layers.empty());
}

Misfit explain_ends(const Setting&, const Strategy& s) {
  if (s.pipeline == 1) {
    return because(
        "stages=ends makes room for embedding and loss, and one "
        "stage holds everything",
        "stages=even, or pp 2");
  }
  return because("stages are given twice: as ends and as a list", "either one");
}

bool layers_broken(const Setting& g, const Strategy& s) {
  return !layers_divide(layers_of(g.model), s);
}

// Layers of `parts` stages or chunks, the fuller ones in the middle: the first
// also holds the embedding and the last the head.
std::vector<int> balanced(int layers, int parts) {
  const int fuller = layers % parts;
  const int before = (parts - fuller) / 2;
  std::vector<int> counts;
  for (int part = 0; part < parts; ++part) {
    const bool is_fuller = part >= before && part < before + fuller;
    counts.push_back(layers / parts + (is_fuller ? 1 : 0));
  }
  return counts;
}

// "stages=7-8-8-7", or chunk by chunk; empty when there are too few layers.
std::string uneven_stages(int layers, const Strategy& s) {
  constexpr int kMostListed = 128;
  const std::int64_t chunks = std::int64_t{s.pipeline} * s.virtual_stages;
  if (chunks > std::min(layers, kMostListed)) return "";
  return fmt::format(
      "stages={}", fmt::join(balanced(layers, static_cast<int>(chunks)), "-"));
}

std::string why_list(int layers, const Strategy& s) {
  std::int64_t sum = 0;
  for (const int count : s.stage_layers) sum += count;
  const std::string numbers =
      s.virtual_stages == 1
          ? fmt::format("{} numbers", s.pipeline)
          : fmt::format("{} multiples of vpp {}, or {} numbers,", s.pipeline,
                        s.virtual_stages,
                        std::int64_t{s.pipeline} * s.virtual_stages);
  return fmt::format(
      "stages={} is {} numbers with {} layers; pp {} needs {} "
      "with {} layers",
      shortened(fmt::format("{}", fmt::join(s.stage_layers, "-"))),
      s.stage_layers.size(), sum, s.pipeline, numbers, layers);
}

std::string why_layers(int layers, const Strategy& s) {
  if (!s.stage_layers.empty()) return why_list(layers, s);
  const std::string counted =
      s.ends_as_layers ? fmt::format("{} with both ends", layers + kEnds)
                       : std::to_string(layers);
  const std::string by =
      s.virtual_stages == 1
          ? fmt::format("pp {}", s.pipeline)
          : fmt::format("pp*vpp = {}*{}", s.pipeline, s.virtual_stages);
  return fmt::format("{} layers are not divisible by {}", counted, by);
}

Misfit explain_layers(const Setting& g, const Strategy& s) {
  const int layers = layers_of(g.model);
  Strategy even = s;
  even.stage_layers.clear();
  const std::string legal =
      legal_sizes(&Strategy::pipeline, layers + kEnds, layers_broken, g, even);
  std::string nearest =
      fmt::format("even stages: {}", legal.empty() ? "none" : "pp " + legal);
  const std::string uneven = uneven_stages(layers, s);
  if (!uneven.empty()) nearest += "; uneven: " + uneven;
  return because(why_layers(layers, s), nearest);
}

/// Chunks of a stage that a schedule runs: from `least` to `most`.
struct ChunkRange {
  int least, most;
};

ChunkRange chunks_of(Schedule schedule) {
  switch (schedule) {
    case Schedule::gpipe:
    case Schedule::one_f_one_b:
    case Schedule::zb_h2:
      break;
    case Schedule::interleaved:
      return {2, kMaxSize};
    case Schedule::zb_h1:
      return {1, kMaxSize};
    case Schedule::zb_v:
    case Schedule::dualpipe_v:
      return {2, 2};
  }
  return {1, 1};
}

bool schedule_broken(const Setting&, const Strategy& s) {
  const ChunkRange range = chunks_of(s.schedule);
  return s.virtual_stages < range.least || range.most < s.virtual_stages;
}

Misfit explain_schedule(const Setting&, const Strategy& s) {
  if (folds(s)) {
    return because(fmt::format("schedule {} folds two chunks a stage into a V, "
                               "and vpp is {}",
                               to_text(s.schedule), s.virtual_stages),
                   "vpp 2");
  }
  if (s.virtual_stages > 1) {
    return because(fmt::format("schedule {} runs one chunk a stage, and vpp is "
                               "{}",
                               to_text(s.schedule), s.virtual_stages),
                   "schedule=interleaved, or vpp 1");
  }
  return because(
      "schedule interleaved needs several chunks a stage, and vpp "
      "is 1",
      "vpp 2, or schedule=1f1b");
}

bool interleaved_alone(const Setting&, const Strategy& s) {
  return sends_beside(s.schedule) && s.pipeline == 1;
}

Misfit explain_interleaved_alone(const Setting&, const Strategy& s) {
  return because(fmt::format("schedule {} needs a pipeline, and pp is 1",
                             to_text(s.schedule)),
                 "pp 2, or vpp 1 with schedule=1f1b");
}

bool split_frozen_broken(const Setting& g, const Strategy& s) {
  return splits_backward(s.schedule) && g.workload.adapters.any();
}

Misfit explain_split_frozen(const Setting&, const Strategy& s) {
  return because(
      fmt::format("schedule {} fills its bubble with weight gradients, and "
                  "frozen weights have none",
                  to_text(s.schedule)),
      "schedule=1f1b, or no --lora");
}

std::int64_t replicas(const Strategy& s) {
  return std::int64_t{s.data} * s.micro_batch;
}

bool rounds_broken(const Setting& g, const Strategy& s) {
  return s.virtual_stages > 1 && !folds(s) &&
         g.workload.global_batch / replicas(s) % s.pipeline != 0;
}

Misfit explain_rounds(const Setting& g, const Strategy& s) {
  const std::int64_t batch = g.workload.global_batch;
  return because(
      fmt::format("{} micro-batches are not a multiple of pp {}, as "
                  "interleaved rounds need",
                  batch / replicas(s), s.pipeline),
      fmt::format("global batch {}, or vpp 1 with schedule=1f1b",
                  nearest_multiples(batch, replicas(s) * s.pipeline)));
}

std::int64_t chunks_of_v(const Strategy& s) {
  return 2 * std::int64_t{s.pipeline};
}

bool dualpipe_broken(const Setting& g, const Strategy& s) {
  return s.schedule == Schedule::dualpipe_v &&
         g.workload.global_batch / replicas(s) < chunks_of_v(s);
}

Misfit explain_dualpipe(const Setting& g, const Strategy& s) {
  return because(
      fmt::format("{} micro-batches are fewer than the 2*pp = {} chunks that "
                  "schedule dualpipe-v fills",
                  g.workload.global_batch / replicas(s), chunks_of_v(s)),
      fmt::format("global batch {}, or schedule=zb-v",
                  replicas(s) * chunks_of_v(s)));
}

// The decoder's layers all read what the encoder made last, so a stage would
// pass on two tensors and keep one for every later stage; and a rank of a
// context group would need the encoder's whole output. Megatron-LM dropped
// its pipeline for encoders in core 0.14.
bool encoder_broken(const Setting& g, const Strategy& s) {
  return g.model.encoder_layers > 0 && (s.pipeline > 1 || s.context > 1);
}

Misfit explain_encoder(const Setting& g, const Strategy& s) {
  return because(
      fmt::format("{} has an encoder that every decoder layer reads: it cannot "
                  "be cut by pp {} or cp {}",
                  g.model.name, s.pipeline, s.context),
      "pp 1 with cp 1");
}

bool parts_broken(const Setting&, const Strategy& s) {
  using Mode = Recompute::Mode;
  const Recompute& r = s.recompute;
  const bool parts = names_parts(r) != r.op;  // "op" stands alone
  const bool layers_fit =
      r.layers == 0 || (r.mode == Mode::full && r.layers > 0);
  return parts != (r.mode == Mode::selective) || !layers_fit;
}

Misfit explain_parts(const Setting&, const Strategy&) {
  return because(
      "recompute names parts, and only selective recomputation has "
      "parts; or layers, and only full recomputation has layers",
      "none, selective:attention, full or full:1");
}

bool recompute_layers_broken(const Setting& g, const Strategy& s) {
  return s.recompute.layers > 0 &&
         s.recompute.layers > most_chunk_layers(layers_of(g.model), s);
}

Misfit explain_recompute_layers(const Setting& g, const Strategy& s) {
  const int most = most_chunk_layers(layers_of(g.model), s);
  return because(
      fmt::format("recompute {} asks for {} layers of a chunk, and none has "
                  "more than {}",
                  to_text(s.recompute), s.recompute.layers, most),
      fmt::format("recompute=full:{}, or recompute=full", most));
}

constexpr Rule kRules[] = {
    {"schedule-chunks", "Narayanan et al. 2021, arXiv 2104.04473, section 2.2",
     schedule_broken, explain_schedule},
    {"interleaved-needs-pipeline",
     "NVIDIA/Megatron-LM megatron/training/arguments.py: "
     "pipeline_model_parallel_size > 1 with the interleaved schedule",
     interleaved_alone, explain_interleaved_alone},
    {"split-backward-trains", "Qi et al. 2024, arXiv 2401.10241, section 2",
     split_frozen_broken, explain_split_frozen},
    {"interleaved-rounds",
     "NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py; "
     "Narayanan et al. 2021, arXiv 2104.04473, section 2.2.2",
     rounds_broken, explain_rounds},
    {"dualpipe-fills",
     "deepseek-ai/DualPipe dualpipe/dualpipev.py; pytorch/pytorch "
     "torch/distributed/pipelining/schedules.py: ScheduleDualPipeV",
     dualpipe_broken, explain_dualpipe},
    {"encoder-whole",
     "NVIDIA/Megatron-LM commit b600e38d: encoder model parallelism removed",
     encoder_broken, explain_encoder},
    {"stages-once",
     "NVIDIA/Megatron-LM megatron/core/transformer/transformer_block.py: no "
     "uneven stages with standalone ends",
     ends_broken, explain_ends},
    {"layers-divide",
     "NVIDIA/Megatron-LM issue 1304; megatron/training/arguments.py",
     layers_broken, explain_layers},
    {"recompute-parts", "ztplan src/strategy/strategy.h", parts_broken,
     explain_parts},
    {"recompute-layers",
     "NVIDIA/Megatron-LM megatron/core/transformer/transformer_block.py: "
     "method block",
     recompute_layers_broken, explain_recompute_layers},
};

}  // namespace

bool split_backward_broken(const Setting&, const Strategy& s) {
  return splits_backward(s.schedule);
}

std::span<const Rule> pipeline_rules() { return kRules; }

}  // namespace ztplan
