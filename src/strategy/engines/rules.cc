#include "strategy/engines/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

namespace ztplan {
namespace {

// "1, 2 or 4"
std::string listed(const std::vector<std::string>& words) {
  if (words.empty()) return "";
  if (words.size() == 1) return words.front();
  const std::vector<std::string> leading(words.begin(), words.end() - 1);
  return fmt::format("{} or {}", fmt::join(leading, ", "), words.back());
}

}  // namespace

std::string nearest_sizes(const Size& size, int most, Broken broken,
                          const Setting& setting, const Strategy& strategy) {
  Strategy other = strategy;
  int& value = other.*size.member;
  const int wanted = value;
  std::vector<std::string> found;
  for (value = std::min(wanted - 1, most); value >= 1; --value) {
    if (broken(setting, other)) continue;
    found.push_back(std::to_string(value));
    break;
  }
  for (value = wanted + 1; value <= most; ++value) {
    if (broken(setting, other)) continue;
    found.push_back(std::to_string(value));
    break;
  }
  return found.empty() ? "" : fmt::format("{} {}", size.key, listed(found));
}

std::string nearest_multiples(std::int64_t value, std::int64_t unit) {
  const std::int64_t below = value / unit * unit;
  if (below == 0) return std::to_string(unit);
  return fmt::format("{} or {}", below, below + unit);
}

std::string nearest_divisors(std::string_view key, int value, int whole) {
  std::vector<std::string> found;
  int below = std::min(value, whole);
  while (below > 1 && whole % below != 0) --below;
  if (below > 1) found.push_back(std::to_string(below));
  int above = value + 1;
  while (above <= whole && whole % above != 0) ++above;
  if (above <= whole) found.push_back(std::to_string(above));
  return found.empty() ? "" : fmt::format("{} {}", key, listed(found));
}

std::string legal_sizes(int Strategy::*member, int most, Broken broken,
                        const Setting& setting, const Strategy& strategy) {
  Strategy other = strategy;
  std::vector<std::string> found;
  for (int value = 1; value <= most; ++value) {
    other.*member = value;
    if (!broken(setting, other)) found.push_back(std::to_string(value));
  }
  return listed(found);
}

std::string either(std::string a, std::string b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return fmt::format("{}, or {}", a, b);
}

Misfit because(std::string detail, std::string nearest) {
  Misfit misfit;
  misfit.detail = std::move(detail);
  misfit.nearest = std::move(nearest);
  return misfit;
}

bool flash_broken(const Setting& g, const Strategy&) {
  constexpr std::string_view kTooEarly[] = {"Pascal", "Volta", "Turing"};
  if (g.workload.attention != AttentionKernel::flash) return false;
  return g.workload.precision == Precision::fp32 ||
         std::ranges::find(kTooEarly, g.cluster.device.architecture) !=
             std::end(kTooEarly);
}

Misfit explain_flash(const Setting& g, const Strategy&) {
  return because(
      fmt::format("flash attention needs Ampere or later and 16-bit numbers; "
                  "this is {} in {}",
                  g.cluster.device.architecture, to_text(g.workload.precision)),
      g.workload.engine == "megatron" ? "attention eager"
                                      : "attention sdpa or eager");
}

bool ulysses_sequence_broken(const Setting& g, const Strategy& s) {
  return s.context > 1 && s.context_kind == ContextKind::ulysses &&
         g.workload.sequence % s.context != 0;
}

Misfit explain_ulysses_sequence(const Setting& g, const Strategy& s) {
  return because(
      fmt::format("sequence {} is not a multiple of cp {}", g.workload.sequence,
                  s.context),
      either("sequence " + nearest_multiples(g.workload.sequence, s.context),
             nearest_sizes({"cp", &Strategy::context}, g.cluster.devices,
                           ulysses_sequence_broken, g, s)));
}

namespace {

constexpr int kFp8Rows = 8, kFp8Columns = 16;

std::int64_t tokens_of_rank(const Setting& g, const Strategy& s) {
  return std::int64_t{g.workload.sequence} / s.context * s.micro_batch;
}

// A width of a layer's matrices that a rank cannot multiply, or 0. Groups of
// tokens that routers send to experts are padded.
int odd_width(const Layer& layer, int tensor) {
  const FeedForward& ffn = layer.ffn;
  const int cut[] = {layer.attention.heads * layer.attention.head_size,
                     ffn.is_moe() ? ffn.shared_width : ffn.width};
  for (const int width : cut)
    if (width % (tensor * kFp8Columns) != 0) return width / tensor;
  const int whole = ffn.is_moe() ? ffn.expert_width : 0;
  return whole % kFp8Columns != 0 ? whole : 0;
}

int odd_width(const ModelSpec& model, int tensor) {
  if (model.hidden % kFp8Columns != 0) return model.hidden;
  const Layer* layer = find_layer(
      model, [&](const Layer& each) { return odd_width(each, tensor) != 0; });
  return layer == nullptr ? 0 : odd_width(*layer, tensor);
}

}  // namespace

bool fp8_shapes_broken(const Setting& g, const Strategy& s) {
  return is_narrow(g.workload.precision) &&
         (tokens_of_rank(g, s) % kFp8Rows != 0 ||
          odd_width(g.model, s.tensor) != 0);
}

bool fp4_broken(const Setting& g, const Strategy&) {
  return g.workload.precision == Precision::fp4;
}

Misfit explain_fp4(const Setting& g, const Strategy&) {
  return because(fmt::format("fp4 training is not known of {}",
                             g.workload.framework.engine),
                 "--engine megatron, or --precision fp8");
}

Misfit explain_fp8_shapes(const Setting& g, const Strategy& s) {
  const int width = odd_width(g.model, s.tensor);
  if (width != 0)
    return because(
        fmt::format("fp8 kernels multiply widths in multiples of {}: {} on tp "
                    "{} is none",
                    kFp8Columns, width, s.tensor),
        either(nearest_sizes({"tp", &Strategy::tensor}, g.cluster.devices,
                             fp8_shapes_broken, g, s),
               "--precision bf16"));
  return because(
      fmt::format("fp8 kernels multiply tokens in multiples of {}: a rank has "
                  "{}",
                  kFp8Rows, tokens_of_rank(g, s)),
      "sequence " + nearest_multiples(g.workload.sequence,
                                      std::int64_t{kFp8Rows} * s.context));
}

bool moments_broken(const Setting& g, const Strategy&) {
  return g.workload.moments != Precision::fp32 &&
         g.workload.optimizer != OptimizerKind::adam8bit;
}

bool stores_otherwise(const Workload& workload) {
  return workload.parameter &&
         *workload.parameter != weight_dtype(workload.precision);
}

bool has_experts(const ModelSpec& model) {
  return any_layer(model,
                   [](const Layer& layer) { return layer.ffn.is_moe(); });
}

}  // namespace ztplan
