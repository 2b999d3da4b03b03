// A strategy: how one training step is cut over devices, and its one-line text.
// What it costs is not known here.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/framework.h"
#include "spec/model.h"

namespace ztplan {

/// ZB-H1, ZB-H2 and ZB-V split backward so that weight gradients fill the
/// bubble: Qi et al., arXiv 2401.10241 and 2405.15362. DualPipeV: DeepSeek-V3,
/// arXiv 2412.19437, cut in half.
enum class Schedule {
  gpipe,
  one_f_one_b,
  interleaved,
  zb_h1,
  zb_h2,
  zb_v,
  dualpipe_v
};
enum class ContextKind { ring, ulysses };
enum class OffloadTier { none, cpu, nvme };
/// fp8 and fp4 are those of products alone: all else is in bf16.
enum class Precision { fp32, fp16, bf16, fp8, fp4 };
/// FlashAttention; PyTorch's memory-efficient kernel, which keeps as little and
/// runs on every device; plain operations.
enum class AttentionKernel { flash, sdpa, eager };

/// What leaves the device. Optimizer states go first; parameters may follow.
struct Offload {
  OffloadTier optimizer = OffloadTier::none;
  OffloadTier parameters = OffloadTier::none;
  auto operator<=>(const Offload&) const = default;
};

/// What is thrown away in forward and computed again in backward.
struct Recompute {
  enum class Mode { none, selective, full };
  Mode mode = Mode::none;
  bool attention = false;    // selective: attention core (scores, softmax)
  bool norms = false;        // selective: norm outputs
  bool activation = false;   // selective: GELU output or gated product
  bool mla_up_proj = false;  // selective: latents to queries, keys, values
  bool mlp = false;          // selective: the MLP of a layer without experts
  bool moe = false;  // selective: all that stands in its place with experts
  bool shared_experts = false;  // selective: of `moe`, what all tokens pass
  bool op = false;  // selective: all but attention and every second product
  int layers = 0;   // full: how many layers of each chunk; 0: all of them
  auto operator<=>(const Recompute&) const = default;
};

/// What gradients are made smaller by on their way. `topk` sends the largest
/// of them with error feedback (Lin et al., arXiv 1712.01887); `one_bit`
/// signs with error feedback (1-bit Adam, arXiv 2102.02888); `quantized` blocks
/// of integers (ZeRO++, arXiv 2306.10209).
enum class Compression { none, topk, one_bit, quantized };

/// Lin et al. send 0.1 to 1 %.
constexpr int kUsualTopkPercent = 1;

/// What engines leave to be tuned. An absent value is the engine's default.
struct Tuning {
  std::optional<std::int64_t> bucket;      // elements gradients are reduced by
  std::optional<bool> overlap;             // reduction beside backward
  std::optional<Precision> communication;  // dtype gradients are reduced in
  Compression compression = Compression::none;
  int topk_percent = kUsualTopkPercent;    // of the gradients that topk sends
  std::optional<std::int64_t> prefetch;    // ZeRO 3: elements gathered ahead
  std::optional<std::int64_t> live;        // ZeRO 3: most elements gathered
  std::optional<std::int64_t> persistent;  // ZeRO 3: kept whole up to this size
  std::optional<std::int64_t> persistent_total;  // ZeRO 3: most of them
  std::optional<std::int64_t> load;  // rows experts have room for, in percent
                                     // of an even split
  int secondary = 0;  // hpZ: ranks that share a second copy; 0: none
  bool quantized_weights = false;  // qwZ: weights gathered as int8
  auto operator<=>(const Tuning&) const = default;
};

struct Strategy {
  int tensor = 1;
  int pipeline = 1;
  int virtual_stages = 1;  // chunks of layers per stage
  int context = 1;
  int expert = 1;         // lies inside data * context * tensor
  int expert_tensor = 1;  // ranks that share an expert, innermost
  int data = 1;
  bool sequence_parallel = false;
  int zero = 0;
  int shard_group = 0;  // ZeRO group inside data * context; 0: all of it
  Offload offload;
  Recompute recompute;
  int micro_batch = 1;
  Schedule schedule = Schedule::one_f_one_b;
  ContextKind context_kind = ContextKind::ring;
  bool ends_as_layers = false;    // embedding and loss count as a layer each
  std::vector<int> stage_layers;  // of each stage or chunk; empty: even
  Tuning tuning;
  auto operator<=>(const Strategy&) const = default;
};

enum class OptimizerKind {
  adam,
  adam8bit,
  sgd,
  momentum,
  adagrad,
  lion,
  lamb,
  muon
};

/// Low-rank adapters beside frozen weights (LoRA, arXiv 2106.09685).
struct Adapters {
  int rank = 0;  // 0: every weight is trained
  bool q = false, k = false, v = false, o = false;
  bool gate = false, up = false, down = false;
  auto operator<=>(const Adapters&) const = default;
  bool any() const { return rank > 0; }
};

/// Frozen weights of linear layers in blocks of integers: 4-bit NormalFloat,
/// with its scales quantized too (QLoRA, arXiv 2305.14314), or 8-bit.
enum class Quantize { none, nf4, nf4_double, int8 };

/// How weights arrive: each device reads its own part, or all of its stage and
/// then keeps a part.
enum class Loading { partitioned, replicated };

/// Whether samples are as long as the sequence (packed or padded), or of many
/// lengths up to it.
enum class Lengths { equal, varied };

/// Whether a router sends tokens where it learned to, or evenly to all experts,
/// as runs do that measure speed alone.
enum class Routing { learned, forced };

/// What is trained per step, in which numbers, by whose rules.
struct Workload {
  int sequence = 0;      // tokens
  int global_batch = 0;  // sequences
  Precision precision = Precision::bf16;
  Precision gradient = Precision::fp32;  // dtype gradients accumulate in
  AttentionKernel attention = AttentionKernel::flash;
  OptimizerKind optimizer = OptimizerKind::adam;
  Precision moments = Precision::fp32;  // dtype of the optimizer's states
  std::optional<Precision> parameter;   // dtype of weights; else the engine's
  Adapters adapters;
  Quantize quantize = Quantize::none;  // of frozen weights
  std::optional<LossKernel> loss;      // else the engine's
  Loading loading = Loading::partitioned;
  Lengths lengths = Lengths::equal;
  Routing routing = Routing::learned;
  double expert_load = 1;  // rows of the busiest rank of experts over the mean
  std::string engine;      // a name known to strategy/engine
  Framework framework;     // how that engine runs it
  auto operator<=>(const Workload&) const = default;
};

/// tensor * context * data * pipeline; INT_MAX where that overflows.
int devices(const Strategy& strategy);
/// global_batch / (data * micro_batch). Requires that it divides.
int micro_batches(const Strategy& strategy, const Workload& workload);
/// The ZeRO stages from which gradients, and then weights, are cut.
constexpr int kShardedGradients = 2, kShardedParameters = 3;

/// Ranks that share model states: 1 without ZeRO, else shard_group, else
/// data * context.
int zero_group(const Strategy& strategy);
/// Ranks among which the experts of one layer are cut: expert * expert_tensor.
int expert_cut(const Strategy& strategy);
/// Ranks that hold the same expert weights: tensor * context * data /
/// expert_cut.
int expert_data(const Strategy& strategy);

/// Largest size a strategy text may name, and most devices it may ask for.
constexpr int kMaxSize = 1'000'000;
constexpr int kMaxDevices = 1'000'000'000;

/// The short form, always whole:
///   tp=8,pp=8,vpp=1,cp=1,ep=1,dp=16,sp=1,zero=1,offload=none,
///   recompute=selective,micro=1,schedule=1f1b
/// then, only when they differ from their defaults,
///   etp=2            ranks that share an expert (default 1)
///   cp_type=ulysses  (default ring)
///   shard=8          (default: all of data * context)
///   stages=1-2x30-3  layers of each stage, or of each of pp*vpp chunks, or
///   stages=ends      embedding and loss count as a layer (default even)
///   bucket=5e7       elements of a gradient bucket (default the engine's)
///   overlap=0        gradients are reduced after backward, not beside it
///   comm=bf16        dtype gradients are reduced in
///   compress=topk    or topk:25, a percentage; onebit, quantized
///   prefetch=, live=, persist=, persist_total=   elements under ZeRO 3
///   load=200         rows of experts there is room for, percent of even ones
///   hpz=8            ranks that share a second copy of the weights
///   qw=1             weights are gathered as int8
/// `parse_strategy` reads it back to an equal value.
std::string to_text(const Strategy& strategy);

/// Missing keys take their defaults, but for: `dp` is what is left of `gpus`
/// when gpus > 0, `schedule` is interleaved when vpp > 1, and vpp is 2 when
/// `schedule` is zb-v or dualpipe-v. Throws
/// `Error` that names the key, its value and what is allowed. Whether the
/// strategy is legal is for strategy/engine to say.
Strategy parse_strategy(std::string_view text, int gpus);

/// `base` with the keys that `text` names in their place; `dp` is what is left
/// of `gpus` when gpus > 0 and the text does not name it.
Strategy overlay_strategy(const Strategy& base, std::string_view text,
                          int gpus);

std::string_view to_text(Precision precision);
std::string_view to_text(Schedule schedule);
std::string_view to_text(OffloadTier tier);
std::string_view to_text(ContextKind kind);
std::string_view to_text(AttentionKernel kernel);
Precision parse_precision(std::string_view text);
/// What is kept or sent: no fp4.
Precision parse_dtype(std::string_view text);
Schedule parse_schedule(std::string_view text);
ContextKind parse_context_kind(std::string_view text);
AttentionKernel parse_attention(std::string_view text);

/// What leaves the device, optimizer states first:
///   none | cpu | nvme            optimizer states, there
///   cpu+parameters               parameters too, on the same tier
///   nvme+parameters:cpu          parameters too, on a tier of their own
///   parameters:cpu               parameters alone
std::string to_text(const Offload& offload);
Offload parse_offload(std::string_view text);

/// What is computed twice:
///   none
///   selective                    the attention core alone
///   selective:attention+norms    any of attention, norms, activation,
///                                mla_up_proj, mlp, moe, shared_experts
///   selective:op                 all but attention and every second product,
///                                as torchtitan's selective_ac_option "op"
///   full | full:4                every layer | the first 4 of each chunk
std::string to_text(const Recompute& recompute);
Recompute parse_recompute(std::string_view text);

std::string_view to_text(Compression compression);
std::string_view to_text(OptimizerKind optimizer);
std::string_view to_text(Quantize quantize);
std::string_view to_text(Loading loading);
std::string_view to_text(Lengths lengths);
Compression parse_compression(std::string_view text);
OptimizerKind parse_optimizer(std::string_view text);
/// "nf4", "nf4,double", "int8" or "none".
Quantize parse_quantize(std::string_view text);
Loading parse_loading(std::string_view text);
Lengths parse_lengths(std::string_view text);

/// "r=8,targets=q,v"; targets are any of q, k, v, o, gate, up, down, or "all";
/// none named are q and v, as PEFT's default for Llama. "none" when there are
/// no adapters.
std::string to_text(const Adapters& adapters);
Adapters parse_adapters(std::string_view text);

/// How many of `count` gradients `compress=topk` sends.
std::int64_t topk_count(const Strategy& strategy, std::int64_t count);

/// Bytes of one number: fp32 4, fp16 and bf16 2, fp8 1.
int bytes_of(Precision precision);
/// Whether products are cast to fewer bits than weights and activations have.
bool is_narrow(Precision precision);
/// The dtype of weights and of their gradients: bf16 in narrow training.
Precision weight_dtype(Precision precision);

}  // namespace ztplan
