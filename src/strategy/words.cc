// The words of a strategy: enumerations, offload and recomputation as text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

#include "strategy/field_text.h"
#include "strategy/recomputed.h"
#include "strategy/strategy.h"

namespace ztplan {
namespace {

template <class Value>
struct Word {
  std::string_view text;
  Value value;
};

constexpr Word<Precision> kPrecisions[] = {{"fp32", Precision::fp32},
                                           {"fp16", Precision::fp16},
                                           {"bf16", Precision::bf16},
                                           {"fp8", Precision::fp8},
                                           {"fp4", Precision::fp4}};
constexpr std::size_t kDtypes = 4;  // of them, but fp4
constexpr Word<Schedule> kSchedules[] = {{"gpipe", Schedule::gpipe},
                                         {"1f1b", Schedule::one_f_one_b},
                                         {"interleaved", Schedule::interleaved},
                                         {"zb-h1", Schedule::zb_h1},
                                         {"zb-h2", Schedule::zb_h2},
                                         {"zb-v", Schedule::zb_v},
                                         {"dualpipe-v", Schedule::dualpipe_v}};
constexpr Word<ContextKind> kContextKinds[] = {
    {"ring", ContextKind::ring}, {"ulysses", ContextKind::ulysses}};
constexpr Word<OffloadTier> kTiers[] = {{"none", OffloadTier::none},
                                        {"cpu", OffloadTier::cpu},
                                        {"nvme", OffloadTier::nvme}};
constexpr Word<AttentionKernel> kKernels[] = {
    {"flash", AttentionKernel::flash},
    {"sdpa", AttentionKernel::sdpa},
    {"eager", AttentionKernel::eager}};

constexpr Word<Compression> kCompressions[] = {
    {"none", Compression::none},
    {"topk", Compression::topk},
    {"onebit", Compression::one_bit},
    {"quantized", Compression::quantized}};
constexpr Word<OptimizerKind> kOptimizers[] = {
    {"adam", OptimizerKind::adam},         {"adamw", OptimizerKind::adam},
    {"adam8bit", OptimizerKind::adam8bit}, {"sgd", OptimizerKind::sgd},
    {"momentum", OptimizerKind::momentum}, {"adagrad", OptimizerKind::adagrad},
    {"lion", OptimizerKind::lion},         {"lamb", OptimizerKind::lamb},
    {"muon", OptimizerKind::muon}};
constexpr Word<Quantize> kQuantizations[] = {
    {"none", Quantize::none},
    {"nf4", Quantize::nf4},
    {"nf4,double", Quantize::nf4_double},
    {"int8", Quantize::int8}};
constexpr Word<Loading> kLoadings[] = {{"partitioned", Loading::partitioned},
                                       {"replicated", Loading::replicated}};
constexpr Word<Lengths> kLengths[] = {{"equal", Lengths::equal},
                                      {"varied", Lengths::varied}};

struct Target {
  std::string_view name;
  bool Adapters::*member;
};
constexpr Target kTargets[] = {{"q", &Adapters::q},       {"k", &Adapters::k},
                               {"v", &Adapters::v},       {"o", &Adapters::o},
                               {"gate", &Adapters::gate}, {"up", &Adapters::up},
                               {"down", &Adapters::down}};
constexpr int kMostRank = 65536;
constexpr char kAdapterForms[] =
    "r=8 or r=8,targets=q,v; targets are q, k, v, o, gate, up, down or all";

constexpr char kOffloadForms[] =
    "none, cpu, nvme, cpu+parameters, nvme+parameters, nvme+parameters:cpu or "
    "parameters:cpu";
constexpr char kRecomputeForms[] =
    "none, selective, selective:attention+norms (any of attention, norms, "
    "activation, mla_up_proj, mlp, moe, shared_experts), selective:op, full or "
    "full:N";

template <class Words>
std::string_view text_of(const Words& words, auto value) {
  for (const auto& word : words) {
    if (word.value == value) return word.text;
  }
  return "?";
}

template <class Words>
auto parse_word(std::string_view key, std::string_view text,
                const Words& words) {
  std::vector<std::string_view> allowed;
  for (const auto& word : words) {
    if (word.text == text) return word.value;
    allowed.push_back(word.text);
  }
  refuse(key, text, fmt::format("{}", fmt::join(allowed, ", ")));
}

// The flag a part of "selective:..." sets.
bool Recompute::*parse_part(std::string_view text, std::string_view part) {
  for (const RecomputedPart& known : kRecomputedParts)
    if (part == known.text) return known.flag;
  if (part == "op") return &Recompute::op;
  refuse("recompute", text, kRecomputeForms);
}

}  // namespace

std::string_view to_text(Precision precision) {
  return text_of(kPrecisions, precision);
}
std::string_view to_text(Schedule schedule) {
  return text_of(kSchedules, schedule);
}
std::string_view to_text(OffloadTier tier) { return text_of(kTiers, tier); }
std::string_view to_text(ContextKind kind) {
  return text_of(kContextKinds, kind);
}
std::string_view to_text(AttentionKernel kernel) {
  return text_of(kKernels, kernel);
}

Schedule parse_schedule(std::string_view text) {
  return parse_word("schedule", text, kSchedules);
}
ContextKind parse_context_kind(std::string_view text) {
  return parse_word("cp_type", text, kContextKinds);
}
Precision parse_precision(std::string_view text) {
  return parse_word("precision", text, kPrecisions);
}
Precision parse_dtype(std::string_view text) {
  return parse_word("dtype", text, std::span(kPrecisions).first(kDtypes));
}
AttentionKernel parse_attention(std::string_view text) {
  return parse_word("attention", text, kKernels);
}

std::string_view to_text(Compression compression) {
  return text_of(kCompressions, compression);
}
std::string_view to_text(OptimizerKind optimizer) {
  return text_of(kOptimizers, optimizer);
}
std::string_view to_text(Quantize quantize) {
  return text_of(kQuantizations, quantize);
}
std::string_view to_text(Loading loading) {
  return text_of(kLoadings, loading);
}
std::string_view to_text(Lengths lengths) { return text_of(kLengths, lengths); }
Compression parse_compression(std::string_view text) {
  return parse_word("compress", text, kCompressions);
}
OptimizerKind parse_optimizer(std::string_view text) {
  return parse_word("optimizer", text, kOptimizers);
}
Quantize parse_quantize(std::string_view text) {
  return parse_word("quantize", text, kQuantizations);
}
Loading parse_loading(std::string_view text) {
  return parse_word("load", text, kLoadings);
}
Lengths parse_lengths(std::string_view text) {
  return parse_word("lengths", text, kLengths);
}

std::string to_text(const Adapters& adapters) {
  if (!adapters.any()) return "none";
  std::vector<std::string_view> targets;
  for (const Target& target : kTargets)
    if (adapters.*target.member) targets.push_back(target.name);
  if (targets.size() == std::size(kTargets)) targets = {"all"};
  return fmt::format("r={},targets={}", adapters.rank, fmt::join(targets, ","));
}

namespace {

void add_target(std::string_view text, std::string_view name,
                Adapters& adapters) {
  bool known = false;
  for (const Target& target : kTargets) {
    if (name != "all" && name != target.name) continue;
    adapters.*target.member = true;
    known = true;
  }
  if (!known) refuse("lora", text, kAdapterForms);
}

}  // namespace

Adapters parse_adapters(std::string_view text) {
  Adapters adapters;
  if (text == "none") return adapters;
  constexpr std::string_view kRank = "r=", kTargetKey = "targets=";
  bool named = false;
  for (std::string_view item : split(text, ',')) {
    if (item.starts_with(kRank)) {
      const auto rank = integer_in(item.substr(kRank.size()), 1, kMostRank);
      if (!rank || adapters.any()) refuse("lora", text, kAdapterForms);
      adapters.rank = *rank;
      continue;
    }
    if (item.starts_with(kTargetKey))
      item.remove_prefix(kTargetKey.size());
    else if (!named)
      refuse("lora", text, kAdapterForms);
    add_target(text, item, adapters);
    named = true;
  }
  if (!adapters.any()) refuse("lora", text, kAdapterForms);
  if (!named) adapters.q = adapters.v = true;
  return adapters;
}

std::string to_text(const Offload& offload) {
  const auto [optimizer, parameters] = offload;
  if (parameters == OffloadTier::none) {
    return std::string(to_text(optimizer));
  }
  if (optimizer == OffloadTier::none) {
    return fmt::format("parameters:{}", to_text(parameters));
  }
  if (optimizer == parameters) {
    return fmt::format("{}+parameters", to_text(optimizer));
  }
  return fmt::format("{}+parameters:{}", to_text(optimizer),
                     to_text(parameters));
}

Offload parse_offload(std::string_view text) {
  for (const auto& optimizer : kTiers) {
    for (const auto& parameters : kTiers) {
      const Offload offload{optimizer.value, parameters.value};
      if (to_text(offload) == text) return offload;
    }
  }
  refuse("offload", text, kOffloadForms);
}

std::string to_text(const Recompute& recompute) {
  if (recompute.mode == Recompute::Mode::none) return "none";
  if (recompute.mode == Recompute::Mode::full) {
    return recompute.layers == 0 ? "full"
                                 : fmt::format("full:{}", recompute.layers);
  }
  std::vector<std::string_view> parts;
  for (const RecomputedPart& part : kRecomputedParts)
    if (recompute.*part.flag) parts.push_back(part.text);
  if (recompute.op) parts.push_back("op");
  if (parts == std::vector<std::string_view>{"attention"}) return "selective";
  return fmt::format("selective:{}", fmt::join(parts, "+"));
}

Recompute parse_recompute(std::string_view text) {
  using Mode = Recompute::Mode;
  if (text == "none") return {};
  if (text == "selective") return {.mode = Mode::selective, .attention = true};
  if (text == "full") return {.mode = Mode::full};
  constexpr std::string_view kFull = "full:";
  if (text.starts_with(kFull)) {
    const auto layers = integer_in(text.substr(kFull.size()), 1, kMaxSize);
    if (!layers) refuse("recompute", text, kRecomputeForms);
    return {.mode = Mode::full, .layers = *layers};
  }
  constexpr std::string_view kSelective = "selective:";
  if (!text.starts_with(kSelective)) refuse("recompute", text, kRecomputeForms);
  Recompute recompute{.mode = Mode::selective};
  for (const std::string_view part :
       split(text.substr(kSelective.size()), '+')) {
    recompute.*parse_part(text, part) = true;
  }
  return recompute;
}

std::int64_t topk_count(const Strategy& strategy, std::int64_t count) {
  constexpr int kAll = 100;
  return divide_up(count * strategy.tuning.topk_percent, kAll);
}

}  // namespace ztplan
