// How the rules of an engine are written: what they look at in a model, and
// the words "nearest legal value". The rules are in the files beside this one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "strategy/engine.h"

namespace ztplan {

/// Rules of arithmetic and of transformers, by what they are about.
std::span<const Rule> grid_rules();      // devices, heads, widths
std::span<const Rule> sequence_rules();  // sequence and context parallelism
std::span<const Rule> expert_rules();
std::span<const Rule> pipeline_rules();  // stages, schedules, recomputation
std::span<const Rule> state_rules();     // batch, ZeRO, offload
std::span<const Rule> number_rules();    // precisions a device has

/// Rules of several files as one list, in the order given.
class RuleList {
 public:
  RuleList(std::initializer_list<std::span<const Rule>> parts) {
    for (const std::span<const Rule> part : parts)
      for (const Rule& rule : part) rules_.at(size_++) = rule;
  }
  std::span<const Rule> all() const { return {rules_.data(), size_}; }

 private:
  static constexpr std::size_t kMost = 64;
  std::array<Rule, kMost> rules_{};
  std::size_t size_ = 0;
};

using Broken = bool (*)(const Setting&, const Strategy&);

/// A size of the strategy and the key it goes by: {"tp", &Strategy::tensor}.
struct Size {
  std::string_view key;
  int Strategy::*member;
};

/// "tp 4 or 6": the closest values up to `most` with which `broken` is false,
/// one below and one above; empty when there is none.
std::string nearest_sizes(const Size& size, int most, Broken broken,
                          const Setting& setting, const Strategy& strategy);

/// "1008 or 1024": the multiples of `unit` around `value`, 0 left out.
std::string nearest_multiples(std::int64_t value, std::int64_t unit);

/// "hpz 4 or 8": the divisors of `whole` around `value`.
std::string nearest_divisors(std::string_view key, int value, int whole);

/// "1, 2 or 4": the values in [1, most] with which `broken` is false.
std::string legal_sizes(int Strategy::*member, int most, Broken broken,
                        const Setting& setting, const Strategy& strategy);

/// "a, or b" of those that are not empty.
std::string either(std::string a, std::string b);

/// A misfit's own part; `explain` adds the rule.
Misfit because(std::string detail, std::string nearest);

/// A misfit whose words do not depend on the values.
template <const char* detail, const char* nearest>
Misfit told(const Setting&, const Strategy&) {
  return because(detail, nearest);
}

/// Whether a FlashAttention-2 kernel is missing where one is asked for: it
/// needs Ampere or later and 16-bit numbers.
bool flash_broken(const Setting& setting, const Strategy& strategy);
Misfit explain_flash(const Setting& setting, const Strategy& strategy);
inline constexpr Rule kFlashSupported = {
    "flash-supported",
    "Dao-AILab/flash-attention README: Ampere, Ada or Hopper, fp16 and bf16",
    flash_broken, explain_flash};

/// Matrices that fp8 kernels do not multiply: rows in eights, columns in
/// sixteens.
bool fp8_shapes_broken(const Setting& setting, const Strategy& strategy);
Misfit explain_fp8_shapes(const Setting& setting, const Strategy& strategy);
inline constexpr Rule kFp8Shapes = {
    "fp8-shapes",
    "NVIDIA/TransformerEngine transformer_engine/pytorch/utils.py: "
    "assert_dim_for_fp8_exec",
    fp8_shapes_broken, explain_fp8_shapes};

/// Of engines without fp4.
bool fp4_broken(const Setting& setting, const Strategy& strategy);
Misfit explain_fp4(const Setting& setting, const Strategy& strategy);
inline constexpr Rule kNoFp4 = {
    "no-fp4",
    "NVIDIA/Megatron-LM megatron/core/fp4_utils.py: fp4_recipe nvfp4, of "
    "Transformer Engine",
    fp4_broken, explain_fp4};

/// Ulysses where every rank must hold an equal part of the sequence.
bool ulysses_sequence_broken(const Setting& setting, const Strategy& strategy);
Misfit explain_ulysses_sequence(const Setting& setting,
                                const Strategy& strategy);

/// Optimizer states in another dtype than fp32; 8-bit Adam has its own.
bool moments_broken(const Setting& setting, const Strategy& strategy);

/// Whether weights are asked for in another dtype than training's.
bool stores_otherwise(const Workload& workload);

bool has_experts(const ModelSpec& model);

/// Experts cut by tensor too, which few engines do.
inline bool expert_tensor_broken(const Setting&, const Strategy& strategy) {
  return strategy.expert_tensor > 1;
}
constexpr char kExpertTensor[] = "experts are cut by ep alone";
constexpr char kExpertTensorNearest[] = "etp 1";

/// Whether the schedule computes weight gradients on their own.
bool split_backward_broken(const Setting& setting, const Strategy& strategy);

/// The first layer for which `test` holds, or null. Equal neighbours cost one
/// test.
template <class Test>
const Layer* find_layer(const ModelSpec& model, Test test) {
  for (const LayerGroup& group : model.layers) {
    if (test(group.layer)) return &group.layer;
  }
  return nullptr;
}

template <class Test>
bool any_layer(const ModelSpec& model, Test test) {
  return find_layer(model, test) != nullptr;
}

/// Heads that hold keys and values of their own: all of them in latent
/// attention, which projects one pair for each query head.
inline int key_value_heads(const Attention& attention) {
  return attention.is_latent() ? attention.heads : attention.kv_heads;
}

/// Layers, counted without building anything.
inline int layers_of(const ModelSpec& model) {
  int layers = 0;
  for (const LayerGroup& group : model.layers) layers += group.count;
  return layers;
}

}  // namespace ztplan
