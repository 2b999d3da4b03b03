// How a training framework runs what a strategy describes: the kernels it
// launches, the passes it fuses, what it overlaps. Its rules and its memory are
// strategy/engine's. Data in hardware/frameworks/, one file a framework.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/calibration.h"

namespace ztplan {

/// How the loss is computed from 16-bit logits.
enum class LossKernel {
  fused,           // gradient overwrites 16-bit logits (Liger Kernel, llm.c)
  compiled,        // one kernel reads logits, one writes their gradient
  vocab_parallel,  // fp32 softmax in place of its input (Megatron-LM)
  eager,           // log-softmax and gradient in fp32 (torch)
  upcast,          // eager, of shifted fp32 copies (Hugging Face)
  uncast,          // eager in 16 bits: no autocast, no float() (DeepSpeed)
  chunked,         // eager, an eighth of the tokens at a time (torchtitan)
  fused_linear     // with the output matrix, chunk by chunk (Liger Kernel)
};

/// What the graph of a step asks of a framework; the defaults are those of a
/// recent one. Rates and host times are constants of its file too.
struct Framework {
  std::string id;           // "megatron-2021"
  std::string engine;       // whose rules and memory it has
  bool is_default = false;  // of that engine
  std::string file;         // what its constants are read from
  std::string source;
  std::vector<std::string> aliases = {};

  std::optional<LossKernel> loss = {};  // else the engine's

  bool fused_attention = true;  // one kernel, else plain operations
  bool skips_mask = true;       // that kernel leaves the masked half out
  /// Ranks of a ring of context hold an early and a late piece each, so that a
  /// causal mask costs them alike; else all wait for the last, which sees all.
  bool balances_ring = true;
  bool dropout = false;      // of hidden states, whose mask is kept
  bool fuses_casts = false;  // casts to fp8 are a part of the pass before them
  /// fp16 gradients accumulate and travel as they are, not in fp32.
  bool narrow_fp16_gradients = false;
  bool wide_bf16_gradients = false;    // in fp32 whatever its engine's usual
  bool narrow_bf16_gradients = false;  // and of fp8 runs, in bf16 likewise
  /// Sharded gradients travel as they are computed, whatever they accumulate
  /// in.
  bool narrow_reduction = false;
  /// Under ZeRO 2 and 3, gradients of micro-batches are summed whole on every
  /// rank and reduced after the last.
  bool reduces_once = false;
  /// CUDA of its time loads every kernel at once (before 11.7), not when
  /// called.
  bool loads_all_kernels = false;
  /// What fp8 products read waits for their backward in fp8.
  bool narrow_inputs = false;
  /// Experts weigh what they compute before their second product, so that what
  /// they return need not be kept.
  bool weighs_within_experts = false;
  /// Its modules are fused kernels though its engine's usual ones are not.
  bool fused_modules = false;
  bool overlaps_gradients = true;  // reduces beside backward where it can
  /// Sums the gradient of a column-parallel layer's input beside its weight
  /// gradient; else before it.
  bool overlaps_tensor = true;
  /// Each tensor rank sends its part of a boundary to the next stage, which
  /// gathers them.
  bool scatters_boundary = false;
  /// Runs gradients of weights apart from those of inputs, where its engine
  /// does not.
  bool splits_backward = false;
  /// A token crosses to a rank once, however many of its experts are there.
  bool sends_once = false;
  /// Casts, activation and padding are a part of the grouped products of
  /// experts; else fp8 rows are padded and cut again by passes of their own.
  bool fused_experts = false;
  bool rings_only = false;  // collectives across nodes are never trees
  /// Rings of gradients with several ranks in a node share one of its NICs.
  bool one_nic = false;

  // Kernel launches of a layer's forward; its backward launches twice as many.
  int fused_kernels = 12;      // of Megatron-LM's GPT layer, counted
  int eager_kernels = 18;      // the same with plain attention
  int expert_kernels = 45;     // of routing, exchange and return
  int kernels_per_expert = 2;  // of those a device holds
  int casts_per_expert = 6;    // more of them under fp8

  auto operator<=>(const Framework&) const = default;
};

/// Its yes and no by the names they have in its file, and where that differs
/// from a recent framework.
struct FrameworkFact {
  std::string_view name;
  bool value = false, usual = false;
};
std::vector<FrameworkFact> facts(const Framework& framework);

/// "vocab_parallel" and the like, both ways. Throws `Error` with the nearest.
std::string_view to_text(LossKernel kernel);
LossKernel parse_loss(std::string_view text);

/// What a file of hardware/frameworks says; its constants stay in `name`.
/// Throws `Error` with the place.
Framework parse_framework(const JsonView& file, std::string_view name);

/// Every file of hardware/frameworks, by id.
std::vector<Framework> all_frameworks();

/// An id from hardware/frameworks, or a path to a file of the same form. Throws
/// `Error` with the nearest name.
Framework load_framework(std::string_view name_or_path);

/// The one that an engine means when no version is named.
Framework default_framework(std::string_view engine);

/// Constants of `device` as it is used by `framework`: those published for the
/// device, then the framework's own.
Calibration calibration_for(const DeviceSpec& device,
                            const Framework& framework);

}  // namespace ztplan
