#include "spec/usual_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace ztplan {
namespace {

struct Row {
  int layers, hidden, heads;
};

// GPT-3, arXiv 2005.14165, table 2.1 (1.3B with the 16 heads that divide its
// hidden size), then Megatron-LM, arXiv 2104.04473, table 1, and 22B of
// arXiv 2205.05198.
constexpr Row kGptRows[] = {
    {12, 768, 12},    {24, 1024, 16},    {24, 1536, 16},    {24, 2048, 16},
    {24, 2304, 24},   {32, 2560, 32},    {30, 3072, 32},    {32, 4096, 32},
    {36, 4096, 32},   {40, 5120, 40},    {40, 6144, 48},    {48, 6144, 64},
    {48, 8192, 64},   {60, 10240, 80},   {80, 12288, 96},   {96, 12288, 96},
    {96, 16384, 128}, {105, 20480, 128}, {128, 25600, 160},
};

// TinyLlama, arXiv 2401.02385, then LLaMA, arXiv 2302.13971, table 2. Llama
// 3.1 405B, arXiv 2407.21783, table 3, for its proportions.
constexpr Row kLlamaRows[] = {
    {22, 2048, 32}, {32, 4096, 32}, {40, 5120, 40},
    {60, 6656, 52}, {80, 8192, 64}, {126, 16384, 128},
};

constexpr double kNear = 0.06;      // take a published shape this close
constexpr double kFarthest = 0.10;  // refuse to call this the same size
constexpr double kSizeWeight = 10;  // of a wrong size against odd proportions

constexpr int kHeadSize = 128;      // usual above, ...
constexpr int kSmallHeadSize = 64;  // ... and below GPT-3 2.7B
constexpr int kMostHidden = 262'144;
constexpr int kMostLayers = 1000;
constexpr int kFfnUnit = 256;  // LLaMA rounds 8/3 hidden up to multiples

constexpr int kGptVocab = 50257;  // GPT-2's
constexpr int kGptSequence = 2048;
constexpr int kLlamaVocab = 32000;
constexpr int kLlamaSequence = 4096;  // Llama 2

std::span<const Row> rows_of(TextFamily family) {
  if (family == TextFamily::gpt) return kGptRows;
  return kLlamaRows;
}

Shape with_row(const Shape& given, const Row& row) {
  Shape shape = given;
  shape.layers = row.layers;
  shape.hidden = row.hidden;
  shape.heads = row.heads;
  return shape;
}

double size_of(TextFamily family, const Shape& shape) {
  return static_cast<double>(
      parameters(make_model(family, complete(family, shape))));
}

/// |log| of the ratio: equally far above and below.
double distance(double a, double b) { return std::abs(std::log(a / b)); }

/// Hidden size per layer, interpolated between the published rows.
double usual_aspect(TextFamily family, int hidden) {
  const std::span<const Row> rows = rows_of(family);
  const auto aspect = [](const Row& r) {
    return static_cast<double>(r.hidden) / r.layers;
  };
  const auto above = std::ranges::lower_bound(rows, hidden, {}, &Row::hidden);
  if (above == rows.begin()) return aspect(rows.front());
  if (above == rows.end()) return aspect(rows.back());
  const Row& low = *std::prev(above);
  const double way = std::log(static_cast<double>(hidden) / low.hidden) /
                     std::log(static_cast<double>(above->hidden) / low.hidden);
  return aspect(low) + way * (aspect(*above) - aspect(low));
}

int usual_head_size(int hidden) {
  const bool is_small = hidden < 2048 || hidden % kHeadSize != 0;
  return is_small ? kSmallHeadSize : kHeadSize;
}

/// Published stacks divide well into pipeline stages.
int layer_unit(double layers) {
  if (layers < 8) return 1;
  return layers < 16 ? 2 : 4;
}

/// The number of layers that comes closest to `count` at this hidden size.
int fitting_layers(TextFamily family, double count, Shape shape) {
  shape.layers = 1;
  const double one = size_of(family, shape);
  shape.layers = 2;
  const double more = size_of(family, shape) - one;
  const double wanted =
      std::clamp<double>(1 + (count - one) / more, 1, kMostLayers);
  const int unit = layer_unit(wanted);
  return unit * static_cast<int>(std::lround(wanted / unit));
}

/// Hidden sizes worth trying grow coarser as published ones do.
int hidden_step(int hidden) {
  if (hidden < 1024) return 128;
  if (hidden < 4096) return 256;
  return hidden < 8192 ? 512 : 1024;
}

struct Candidate {
  Shape shape;
  double score = std::numeric_limits<double>::infinity();
};

Candidate best_at(TextFamily family, double count, const Shape& given,
                  int hidden) {
  Shape shape = with_row(given, {1, hidden, hidden / usual_head_size(hidden)});
  shape.layers = fitting_layers(family, count, shape);
  const double aspect = static_cast<double>(hidden) / shape.layers;
  return {shape, kSizeWeight * distance(size_of(family, shape), count) +
                     distance(aspect, usual_aspect(family, hidden))};
}

Shape search_shape(TextFamily family, double count, const Shape& given) {
  Candidate best;
  for (int hidden = kHeadSize; hidden <= kMostHidden;
       hidden += hidden_step(hidden)) {
    const Candidate next = best_at(family, count, given, hidden);
    if (next.score < best.score) best = next;
  }
  return best.shape;
}

int usual_heads(int hidden) {
  for (const int size : {kHeadSize, kSmallHeadSize})
    if (hidden % size == 0) return hidden / size;
  throw Error(fmt::format("heads must be given: hidden={} is no multiple of {}",
                          hidden, kSmallHeadSize));
}

int usual_head_count(TextFamily family, int hidden) {
  for (const Row& row : rows_of(family))
    if (row.hidden == hidden) return row.heads;
  return usual_heads(hidden);
}

int usual_ffn(TextFamily family, int hidden) {
  if (family == TextFamily::gpt) return 4 * hidden;
  return static_cast<int>(round_up(std::int64_t{8} * hidden / 3, kFfnUnit));
}

}  // namespace

Shape complete(TextFamily family, Shape shape) {
  const bool is_gpt = family == TextFamily::gpt;
  const auto fill = [](int& field, int value) {
    if (field == 0) field = value;
  };
  if (shape.heads == 0) shape.heads = usual_head_count(family, shape.hidden);
  fill(shape.vocab, is_gpt ? kGptVocab : kLlamaVocab);
  fill(shape.sequence, is_gpt ? kGptSequence : kLlamaSequence);
  fill(shape.kv_heads, shape.heads);
  if (shape.head_size == 0 && shape.hidden % shape.heads != 0) {
    throw Error(fmt::format("hidden {} is not a multiple of heads {}",
                            shape.hidden, shape.heads),
                "change one of them, or give head_size");
  }
  fill(shape.head_size, shape.hidden / shape.heads);
  fill(shape.ffn, usual_ffn(family, shape.hidden));
  return shape;
}

ModelSpec make_model(TextFamily family, const Shape& shape) {
  const bool is_gpt = family == TextFamily::gpt;
  ModelSpec model;
  model.hidden = shape.hidden;
  model.vocab = shape.vocab;
  model.sequence = shape.sequence;
  model.norm = is_gpt ? Norm::layer : Norm::rms;
  model.positions = is_gpt ? Positions::learned : Positions::rotary;
  model.position_rows = is_gpt ? shape.sequence : 0;
  model.tied = is_gpt;
  Layer layer;
  layer.attention = {.heads = shape.heads,
                     .kv_heads = shape.kv_heads,
                     .head_size = shape.head_size,
                     .qkv_bias = is_gpt,
                     .output_bias = is_gpt};
  layer.ffn = {.width = shape.experts > 0 ? 0 : shape.ffn,
               .gated = !is_gpt,
               .bias = is_gpt,
               .activation = is_gpt ? Activation::gelu : Activation::silu,
               .experts = shape.experts,
               .top_k = shape.top_k,
               .expert_width = shape.experts > 0 ? shape.ffn : 0};
  model.layers = {{shape.layers, layer}};
  return model;
}

Shape usual_shape(TextFamily family, double count, const Shape& given) {
  const auto off = [&](const Row& row) {
    return distance(size_of(family, with_row(given, row)), count);
  };
  const Row nearest = *std::ranges::min_element(rows_of(family), {}, off);
  Shape shape = off(nearest) <= kNear ? with_row(given, nearest)
                                      : search_shape(family, count, given);
  if (distance(size_of(family, shape), count) > kFarthest)
    throw Error(fmt::format("no usual shape has {:.4g} parameters with this "
                            "vocabulary: the nearest has {:.4g}",
                            count, size_of(family, shape)),
                "give layers, hidden and heads instead of params");
  return complete(family, shape);
}

}  // namespace ztplan
