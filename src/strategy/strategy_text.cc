#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bitset>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "strategy/field_text.h"
#include "strategy/strategy.h"

namespace ztplan {
namespace {

constexpr char kStageForms[] =
    "even, ends or the layers of each stage or chunk as in 7-8-8-7 or 3-4x30-3";

constexpr int kMostListed = 10'000;  // the layers a model may have

/// "onebit"; "topk" and "topk:25", in percent.
void parse_compressed(std::string_view value, Tuning& tuning) {
  constexpr int kAll = 100;
  const std::size_t colon = value.find(':');
  tuning.compression = parse_compression(value.substr(0, colon));
  if (colon == std::string_view::npos) return;
  if (tuning.compression != Compression::topk)
    throw Error("only compress=topk has a percentage", "compress=topk:25");
  tuning.topk_percent =
      parse_integer("compress=topk", value.substr(colon + 1), 1, kAll);
}

void parse_stages(std::string_view value, Strategy& strategy) {
  if (value == "even") return;
  if (value == "ends") {
    strategy.ends_as_layers = true;
    return;
  }
  std::vector<int>& stages = strategy.stage_layers;
  for (const std::string_view piece : split(value, '-')) {
    const std::size_t times = piece.find('x');
    const bool repeats = times != std::string_view::npos;
    const std::optional<int> layers =
        integer_in(piece.substr(0, times), 0, kMaxSize);
    const std::optional<int> count =
        repeats ? integer_in(piece.substr(times + 1), 1, kMostListed)
                : std::optional(1);
    if (!layers || !count || std::ssize(stages) + *count > kMostListed)
      refuse("stages", value, kStageForms);
    stages.insert(stages.end(), static_cast<std::size_t>(*count), *layers);
  }
}

/// "0-2x30-1": many equal ones in a row are counted.
std::string stages_text(std::span<const int> stages) {
  constexpr std::ptrdiff_t kMany = 8;
  std::vector<std::string> pieces;
  for (auto at = stages.begin(); at != stages.end();) {
    const auto other = std::find_if(at, stages.end(),
                                    [&](int layers) { return layers != *at; });
    if (other - at >= kMany)
      pieces.push_back(fmt::format("{}x{}", *at, other - at));
    else
      pieces.push_back(fmt::format("{}", fmt::join(at, other, "-")));
    at = other;
  }
  return fmt::format("{}", fmt::join(pieces, "-"));
}

// Elements: "50000000" or "5e7".
std::int64_t parse_elements(std::string_view key, std::string_view value) {
  constexpr double kMostElements = 1e12;
  double number = -1;
  const auto [stop, problem] =
      std::from_chars(value.data(), value.data() + value.size(), number);
  const bool whole = problem == std::errc{} &&
                     stop == value.data() + value.size() &&
                     number == std::floor(number);
  if (!whole || number < 0 || number > kMostElements)
    refuse(key, value, "a whole number of elements up to 1e12, as 5e7");
  return static_cast<std::int64_t>(number);
}

template <std::optional<std::int64_t> Tuning::*elements>
void read_elements(std::string_view key, std::string_view value, Strategy& s) {
  s.tuning.*elements = parse_elements(key, value);
}

using Reader = void (*)(std::string_view key, std::string_view value,
                        Strategy& strategy);

template <int Strategy::*size>
void read_size(std::string_view key, std::string_view value, Strategy& s) {
  s.*size = parse_integer(key, value, 1, kMaxSize);
}

struct Key {
  std::string_view name;
  Reader read;
};

constexpr Key kKeys[] = {
    {"tp", read_size<&Strategy::tensor>},
    {"pp", read_size<&Strategy::pipeline>},
    {"vpp", read_size<&Strategy::virtual_stages>},
    {"cp", read_size<&Strategy::context>},
    {"ep", read_size<&Strategy::expert>},
    {"etp", read_size<&Strategy::expert_tensor>},
    {"dp", read_size<&Strategy::data>},
    {"sp",
     [](std::string_view key, std::string_view value, Strategy& s) {
       s.sequence_parallel = parse_integer(key, value, 0, 1) == 1;
     }},
    {"zero",
     [](std::string_view key, std::string_view value, Strategy& s) {
       constexpr int kHighestStage = 3;
       s.zero = parse_integer(key, value, 0, kHighestStage);
     }},
    {"offload", [](std::string_view, std::string_view value,
                   Strategy& s) { s.offload = parse_offload(value); }},
    {"recompute", [](std::string_view, std::string_view value,
                     Strategy& s) { s.recompute = parse_recompute(value); }},
    {"micro", read_size<&Strategy::micro_batch>},
    {"schedule", [](std::string_view, std::string_view value,
                    Strategy& s) { s.schedule = parse_schedule(value); }},
    {"cp_type",
     [](std::string_view, std::string_view value, Strategy& s) {
       s.context_kind = parse_context_kind(value);
     }},
    {"shard", read_size<&Strategy::shard_group>},
    {"stages", [](std::string_view, std::string_view value,
                  Strategy& s) { parse_stages(value, s); }},
    {"bucket", read_elements<&Tuning::bucket>},
    {"overlap",
     [](std::string_view key, std::string_view value, Strategy& s) {
       s.tuning.overlap = parse_integer(key, value, 0, 1) == 1;
     }},
    {"comm", [](std::string_view, std::string_view value,
                Strategy& s) { s.tuning.communication = parse_dtype(value); }},
    {"compress", [](std::string_view, std::string_view value,
                    Strategy& s) { parse_compressed(value, s.tuning); }},
    {"prefetch", read_elements<&Tuning::prefetch>},
    {"live", read_elements<&Tuning::live>},
    {"persist", read_elements<&Tuning::persistent>},
    {"persist_total", read_elements<&Tuning::persistent_total>},
    {"load", read_elements<&Tuning::load>},
    {"hpz",
     [](std::string_view key, std::string_view value, Strategy& s) {
       s.tuning.secondary = parse_integer(key, value, 1, kMaxSize);
     }},
    {"qw",
     [](std::string_view key, std::string_view value, Strategy& s) {
       s.tuning.quantized_weights = parse_integer(key, value, 0, 1) == 1;
     }},
};
constexpr std::size_t kKeyCount = std::size(kKeys);
using KeysSeen = std::bitset<kKeyCount>;

[[noreturn]] void refuse_key(std::string_view name) {
  std::vector<std::string> names;
  for (const Key& key : kKeys) names.emplace_back(key.name);
  const std::string close = nearest_name(name, names);
  const std::string guess =
      close.empty() ? "" : fmt::format("did you mean {}? ", close);
  throw Error(fmt::format("a strategy has no key {}", quote(name)),
              fmt::format("{}keys: {}", guess, fmt::join(names, ", ")));
}

std::size_t find_key(std::string_view name) {
  for (std::size_t i = 0; i < kKeyCount; ++i) {
    if (kKeys[i].name == name) return i;
  }
  refuse_key(name);
}

void read_item(std::string_view item, Strategy& strategy, KeysSeen& seen) {
  const std::size_t equals = item.find('=');
  if (equals == std::string_view::npos) {
    throw Error(fmt::format("strategy item {} is not key=value", quote(item)),
                "write a strategy as tp=8,pp=8,dp=16,zero=1");
  }
  const std::size_t key = find_key(trimmed(item.substr(0, equals)));
  if (seen[key]) {
    throw Error(fmt::format("{} is given twice", kKeys[key].name),
                "keep one of them");
  }
  seen.set(key);
  kKeys[key].read(kKeys[key].name, trimmed(item.substr(equals + 1)), strategy);
}

bool is_seen(const KeysSeen& seen, std::string_view name) {
  return seen[find_key(name)];
}

bool is_named(std::string_view text, std::string_view key) {
  for (const std::string_view item : split(text, ','))
    if (trimmed(item.substr(0, item.find('='))) == key) return true;
  return false;
}

std::int64_t model_size(const Strategy& s) {
  return std::int64_t{s.tensor} * s.context * s.pipeline;
}

void refuse_overflow(const Strategy& s) {
  if (devices(s) <= kMaxDevices) return;
  throw Error(fmt::format("tp*pp*cp*dp = {}*{}*{}*{} is more than {} devices",
                          s.tensor, s.pipeline, s.context, s.data, kMaxDevices),
              "use smaller sizes");
}

// What is left of `gpus` for data parallelism, rounded down: a remainder is for
// the rule `devices-match` to refuse.
int data_left(const Strategy& s, int gpus) {
  const auto data =
      static_cast<int>(std::max<std::int64_t>(1, gpus / model_size(s)));
  if (data > kMaxSize) {
    throw Error(
        fmt::format("{} GPUs leave dp={}, more than {}", gpus, data, kMaxSize),
        "use fewer GPUs");
  }
  return data;
}

void add_elements(std::string& text, std::string_view key,
                  const std::optional<std::int64_t>& elements) {
  if (elements) text += fmt::format(",{}={}", key, *elements);
}

std::string tuning_text(const Tuning& t) {
  std::string text;
  add_elements(text, "bucket", t.bucket);
  if (t.overlap) text += fmt::format(",overlap={:d}", *t.overlap);
  if (t.communication)
    text += fmt::format(",comm={}", to_text(*t.communication));
  if (t.compression != Compression::none)
    text += fmt::format(",compress={}", to_text(t.compression));
  if (t.topk_percent != kUsualTopkPercent)
    text += fmt::format(":{}", t.topk_percent);
  add_elements(text, "prefetch", t.prefetch);
  add_elements(text, "live", t.live);
  add_elements(text, "persist", t.persistent);
  add_elements(text, "persist_total", t.persistent_total);
  add_elements(text, "load", t.load);
  if (t.secondary > 0) text += fmt::format(",hpz={}", t.secondary);
  if (t.quantized_weights) text += ",qw=1";
  return text;
}

}  // namespace

std::string to_text(const Strategy& s) {
  std::string text = fmt::format(
      "tp={},pp={},vpp={},cp={},ep={},dp={},sp={:d},zero={},offload={},"
      "recompute={},micro={},schedule={}",
      s.tensor, s.pipeline, s.virtual_stages, s.context, s.expert, s.data,
      s.sequence_parallel, s.zero, to_text(s.offload), to_text(s.recompute),
      s.micro_batch, to_text(s.schedule));
  if (s.expert_tensor > 1) text += fmt::format(",etp={}", s.expert_tensor);
  if (s.context_kind != ContextKind::ring) {
    text += fmt::format(",cp_type={}", to_text(s.context_kind));
  }
  if (s.shard_group > 0) text += fmt::format(",shard={}", s.shard_group);
  if (!s.stage_layers.empty()) {
    text += fmt::format(",stages={}", stages_text(s.stage_layers));
  } else if (s.ends_as_layers) {
    text += ",stages=ends";
  }
  return text + tuning_text(s.tuning);
}

Strategy parse_strategy(std::string_view text, int gpus) {
  return overlay_strategy(Strategy{}, text, gpus);
}

Strategy overlay_strategy(const Strategy& base, std::string_view text,
                          int gpus) {
  Strategy strategy = base;
  KeysSeen seen;
  if (!trimmed(text).empty()) {
    if (is_named(text, "stages")) {
      strategy.stage_layers.clear();
      strategy.ends_as_layers = false;
    }
    for (const std::string_view item : split(text, ',')) {
      read_item(item, strategy, seen);
    }
  }
  if (!is_seen(seen, "schedule") && strategy.virtual_stages > 1 &&
      base.virtual_stages == 1) {
    strategy.schedule = Schedule::interleaved;
  }
  const bool folds = strategy.schedule == Schedule::zb_v ||
                     strategy.schedule == Schedule::dualpipe_v;
  if (folds && !is_seen(seen, "vpp") && base.virtual_stages == 1) {
    strategy.virtual_stages = 2;
  }
  refuse_overflow(strategy);
  if (is_seen(seen, "dp") || gpus <= 0) return strategy;
  strategy.data = data_left(strategy, gpus);
  return strategy;
}

}  // namespace ztplan
