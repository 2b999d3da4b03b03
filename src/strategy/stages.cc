#include "strategy/stages.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/error.h"

namespace ztplan {
namespace {

// Embedding and loss, when each counts as a layer.
constexpr int kEnds = 2;

std::int64_t chunks(const Strategy& s) {
  return std::int64_t{s.pipeline} * s.virtual_stages;
}

int counted_layers(int layers, const Strategy& s) {
  return s.ends_as_layers ? layers + kEnds : layers;
}

bool lists_chunks(const Strategy& s) {
  return std::ssize(s.stage_layers) == chunks(s);
}

bool lists_stages(const Strategy& s) {
  return std::ssize(s.stage_layers) == s.pipeline &&
         std::ranges::all_of(s.stage_layers, [&](int count) {
           return count % s.virtual_stages == 0;
         });
}

// Only the ends, which have embedding and head to run, may have no layer.
bool lists_layers(int layers, const Strategy& s) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < s.stage_layers.size(); ++i) {
    const bool is_end = i == 0 || i + 1 == s.stage_layers.size();
    if (s.stage_layers[i] < (is_end ? 0 : 1)) return false;
    sum += s.stage_layers[i];
  }
  return sum == layers && (lists_chunks(s) || lists_stages(s));
}

std::vector<int> even_chunks(int layers, const Strategy& s) {
  const std::int64_t count = chunks(s);
  std::vector<int> even(static_cast<std::size_t>(count),
                        static_cast<int>(counted_layers(layers, s) / count));
  if (s.ends_as_layers) {
    --even.front();
    --even.back();
  }
  return even;
}

std::vector<int> listed_chunks(const Strategy& s) {
  if (lists_chunks(s)) return s.stage_layers;
  std::vector<int> listed;
  for (int u = 0; u < s.pipeline * s.virtual_stages; ++u) {
    const auto stage = static_cast<std::size_t>(stage_of(s, u));
    listed.push_back(s.stage_layers[stage] / s.virtual_stages);
  }
  return listed;
}

}  // namespace

bool folds(const Strategy& s) {
  return s.schedule == Schedule::zb_v || s.schedule == Schedule::dualpipe_v;
}

bool ends_apart(const Strategy& s) { return s.pipeline > 1 && !folds(s); }

int virtual_stage(const Strategy& s, int stage, int chunk) {
  const bool goes_up = folds(s) && chunk % 2 == 1;
  return chunk * s.pipeline + (goes_up ? s.pipeline - 1 - stage : stage);
}

int stage_of(const Strategy& s, int virtual_stage) {
  const int stage = virtual_stage % s.pipeline;
  const bool goes_up = folds(s) && virtual_stage / s.pipeline % 2 == 1;
  return goes_up ? s.pipeline - 1 - stage : stage;
}

int first_layer(const std::vector<int>& layers, int virtual_stage) {
  return std::accumulate(layers.begin(), layers.begin() + virtual_stage, 0);
}

int ChunkShape::layers() const {
  return std::accumulate(layers_of_kind.begin(), layers_of_kind.end(), 0);
}

int StageShape::layers() const {
  int sum = 0;
  for (const ChunkShape& chunk : chunks) sum += chunk.layers();
  return sum;
}

bool StageShape::has_embedding() const {
  return std::ranges::any_of(chunks, &ChunkShape::has_embedding);
}

bool StageShape::has_head() const {
  return std::ranges::any_of(chunks, &ChunkShape::has_head);
}

bool layers_divide(int layers, const Strategy& s) {
  if (s.pipeline < 1 || s.virtual_stages < 1) return false;
  if (!s.stage_layers.empty()) {
    return !s.ends_as_layers && lists_layers(layers, s);
  }
  return counted_layers(layers, s) % chunks(s) == 0;
}

std::vector<int> chunk_layers(int layers, const Strategy& s) {
  if (!layers_divide(layers, s)) return {};
  return s.stage_layers.empty() ? even_chunks(layers, s) : listed_chunks(s);
}

int most_chunk_layers(int layers, const Strategy& s) {
  require(layers_divide(layers, s), "most_chunk_layers: the layers divide");
  if (!s.stage_layers.empty()) {
    const int most = std::ranges::max(s.stage_layers);
    return lists_chunks(s) ? most : most / s.virtual_stages;
  }
  const auto even = static_cast<int>(counted_layers(layers, s) / chunks(s));
  if (!s.ends_as_layers) return even;
  // With one chunk it holds both ends, with two each holds one.
  if (chunks(s) == 1) return layers;
  return chunks(s) == 2 ? even - 1 : even;
}

std::vector<StageShape> stage_shapes(const LayerKinds& kinds,
                                     const Strategy& s) {
  const int layers = static_cast<int>(kinds.kind_of_layer.size());
  const std::vector<int> counts = chunk_layers(layers, s);
  require(!counts.empty(), "stage_shapes: the layers divide");
  std::vector<StageShape> stages(static_cast<std::size_t>(s.pipeline));
  auto kind = kinds.kind_of_layer.begin();
  for (std::size_t c = 0; c < counts.size(); ++c) {
    ChunkShape chunk;
    chunk.layers_of_kind.resize(kinds.kinds.size());
    for (int i = 0; i < counts[c]; ++i) {
      ++chunk.layers_of_kind[static_cast<std::size_t>(*kind++)];
    }
    chunk.has_embedding = c == 0;
    chunk.has_head = c + 1 == counts.size();
    const int stage = stage_of(s, static_cast<int>(c));
    stages[static_cast<std::size_t>(stage)].chunks.push_back(std::move(chunk));
  }
  return stages;
}

int chunks_in_flight(const Strategy& s, int stage, int micro_batches) {
  const std::int64_t all = std::int64_t{micro_batches} * s.virtual_stages;
  const std::int64_t after = s.pipeline - stage;  // this stage and later ones
  std::int64_t held = all;
  if (s.schedule == Schedule::one_f_one_b) held = after;
  if (s.schedule == Schedule::interleaved) {
    held =
        2 * (after - 1) + std::int64_t{s.virtual_stages - 1} * s.pipeline + 1;
  }
  return static_cast<int>(std::min(held, all));
}

}  // namespace ztplan
