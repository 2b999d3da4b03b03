#include "cli/ask.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/quantity_text.h"
#include "base/quote.h"
#include "search/evaluate.h"
#include "spec/framework.h"
#include "strategy/field_text.h"

namespace ztplan {
namespace {

constexpr int kMostSize = 1'000'000;  // of one dimension of a strategy
constexpr int kHighestZero = 3;
constexpr int kMostPlans = 10'000;

[[noreturn]] void refuse(std::string_view flag, const std::string& typed,
                         const std::string& expected) {
  throw Error(
      fmt::format("{} must be {}, not {}", flag, expected, quote(typed)));
}

bool read_whole(std::string_view text, int& value) {
  const auto [stop, problem] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc{} && stop == text.data() + text.size();
}

// "1..8", or one number.
void read_range(std::string_view item, int& low, int& high, bool& valid) {
  const std::size_t dots = item.find("..");
  if (dots == std::string_view::npos) {
    valid = read_whole(item, low);
    high = low;
    return;
  }
  valid = read_whole(item.substr(0, dots), low) &&
          read_whole(item.substr(dots + 2), high);
}

int whole_or_zero(std::string_view flag, const std::string& typed, int most) {
  return typed.empty() ? 0 : parse_whole(flag, typed, most);
}

std::vector<int> list_or_all(std::string_view flag, const std::string& typed) {
  if (typed.empty()) return {};
  return parse_list(flag, typed, 1, kMostSize);
}

template <class Parse>
auto parse_each(const std::string& typed, const Parse& parse) {
  std::vector<decltype(parse(std::string_view()))> values;
  if (typed.empty()) return values;
  for (const std::string_view item : split(typed, ',')) {
    const auto value = parse(item);
    if (std::ranges::find(values, value) == values.end())
      values.push_back(value);
  }
  return values;
}

/// "selective" alone is what an engine means by it: under FSDP torchtitan's, by
/// operation; elsewhere the attention core.
Recompute recompute_of(std::string_view text, const std::string& engine) {
  const bool by_operation = text == "selective" && engine == "fsdp";
  return parse_recompute(by_operation ? "selective:op" : text);
}

bool is_plain_selective(std::string_view item) {
  const std::size_t equals = item.find('=');
  return equals != std::string_view::npos &&
         trimmed(item.substr(0, equals)) == "recompute" &&
         trimmed(item.substr(equals + 1)) == "selective";
}

Limits limits_of(const Flags& flags) {
  Limits limits;
  limits.tensor = list_or_all("--tp", flags.tp);
  limits.pipeline = list_or_all("--pp", flags.pp);
  limits.virtual_stages = list_or_all("--vpp", flags.vpp);
  limits.data = list_or_all("--dp", flags.dp);
  limits.context = list_or_all("--cp", flags.cp);
  limits.expert = list_or_all("--ep", flags.ep);
  limits.expert_tensor = list_or_all("--etp", flags.etp);
  limits.micro_batch = list_or_all("--micro-batch", flags.micro_batch);
  if (!flags.zero.empty()) {
    limits.zero = parse_list("--zero", flags.zero, 0, kHighestZero);
  }
  limits.offload = parse_each(flags.offload, parse_offload);
  limits.schedule = parse_each(flags.schedule, parse_schedule);
  const std::string engine = engine_named(flags);
  limits.recompute = parse_each(flags.recompute, [&](std::string_view text) {
    return recompute_of(text, engine);
  });
  return limits;
}

ClusterOverrides machine_of(const Flags& flags) {
  ClusterOverrides machine;
  machine.gpu = flags.gpu;
  machine.network = flags.network;
  machine.intra = flags.intra;
  machine.p2p = flags.p2p;
  machine.host_memory = flags.host_memory;
  machine.nvme = flags.nvme;
  machine.gpus_per_node =
      whole_or_zero("--gpus-per-node", flags.gpus_per_node, kMostGpus);
  machine.nodes = whole_or_zero("--nodes", flags.nodes, kMostGpus);
  return machine;
}

template <class Value>
void read_word(const std::string& typed, Value (*parse)(std::string_view),
               auto& value) {
  if (!typed.empty()) value = parse(typed);
}

void read_states(const Flags& flags, Request& request) {
  read_word(flags.optimizer, parse_optimizer, request.optimizer);
  read_word(flags.optimizer_dtype, parse_dtype, request.moments);
  read_word(flags.param_dtype, parse_dtype, request.parameter);
  read_word(flags.lora, parse_adapters, request.adapters);
  read_word(flags.quantize, parse_quantize, request.quantize);
  read_word(flags.loss, parse_loss, request.loss);
  read_word(flags.load, parse_loading, request.loading);
  read_word(flags.lengths, parse_lengths, request.lengths);
}

/// What is uneven: experts, and the speed of GPUs.
void read_uneven(const Flags& flags, Request& request) {
  constexpr Range kLoad{1, kMostLoad}, kSpeed{kSlowest, 1};
  if (!flags.expert_load.empty())
    request.expert_load = parse_number("--expert-load", flags.expert_load,
                                       kLoad, "1 (balanced) or more, as 1.5");
  if (!flags.slowest.empty())
    request.slowest = parse_number("--slowest", flags.slowest, kSpeed,
                                   "a speed such as 95% or 0.95, up to 1");
}

void read_workload(const Flags& flags, Request& request) {
  request.engine = flags.engine;
  request.engine_version = flags.engine_version;
  request.sequence = whole_or_zero("--seq", flags.seq, kMostSequence);
  request.global_batch =
      whole_or_zero("--global-batch", flags.global_batch, kMostBatch);
  if (!flags.tokens_per_batch.empty()) {
    request.batch_tokens =
        parse_tokens("--tokens-per-batch", flags.tokens_per_batch);
  }
  if (!flags.precision.empty()) {
    request.precision = parse_precision(flags.precision);
  }
  if (!flags.grad_dtype.empty()) {
    request.gradient = parse_dtype(flags.grad_dtype);
  }
  if (!flags.attention.empty()) {
    request.attention = parse_attention(flags.attention);
  }
  read_states(flags, request);
  read_uneven(flags, request);
}

void read_search(const Flags& flags, Request& request) {
  request.limits = limits_of(flags);
  if (!flags.objective.empty()) {
    request.objective = parse_objective(flags.objective);
  }
  if (!flags.top.empty()) {
    request.top = parse_whole("--top", flags.top, kMostPlans);
  }
  request.margin = flags.strict ? kTightShare : 0;
  if (!flags.margin.empty()) {
    request.margin = parse_share("--margin", flags.margin);
  }
}

}  // namespace

Request request_of(const Flags& flags) {
  Request request;
  request.model = flags.model;
  request.cluster = flags.cluster;
  request.calibration = flags.calibration;
  request.machine = machine_of(flags);
  request.gpus = whole_or_zero("--gpus", flags.gpus, kMostGpus);
  read_workload(flags, request);
  read_search(flags, request);
  return request;
}

std::string engine_named(const Flags& flags) {
  if (!flags.engine.empty() || flags.engine_version.empty())
    return flags.engine;
  return load_framework(flags.engine_version).engine;
}

std::string meant_by(std::string_view engine, std::string_view strategy) {
  if (engine != "fsdp" || strategy.empty()) return std::string(strategy);
  std::string text;
  for (const std::string_view item : split(strategy, ',')) {
    text += is_plain_selective(item) ? "recompute=selective:op" : item;
    text += ',';
  }
  text.pop_back();
  return text;
}

Strategy strategy_of(Flags& flags) {
  if (flags.strategy.empty()) {
    throw Error("which strategy?",
                "add --strategy tp=8,pp=8,sp=1,zero=1; ztplan plan finds one");
  }
  int gpus = whole_or_zero("--gpus", flags.gpus, kMostGpus);
  if (gpus == 0 && !flags.nodes.empty())
    gpus = load_cluster(flags.cluster, 0, machine_of(flags)).devices;
  Strategy strategy =
      parse_strategy(meant_by(engine_named(flags), flags.strategy), gpus);
  if (gpus == 0 && flags.nodes.empty()) {
    flags.gpus = fmt::format("{}", devices(strategy));
  }
  return strategy;
}

int parse_whole(std::string_view flag, const std::string& typed, int most) {
  int value = 0;
  if (!read_whole(typed, value) || value < 1 || value > most) {
    refuse(flag, typed, fmt::format("a whole number from 1 to {}", most));
  }
  return value;
}

std::vector<int> parse_list(std::string_view flag, const std::string& typed,
                            int least, int most) {
  // A range longer than this is a slip, and would only be slow.
  constexpr int kLongestRange = 4096;
  std::vector<int> values;
  std::set<int> seen;
  for (const std::string_view item : split(typed, ',')) {
    int low = 0;
    int high = 0;
    bool valid = false;
    read_range(item, low, high, valid);
    if (!valid || low < least || high > most || high < low ||
        high - low >= kLongestRange) {
      refuse(
          flag, typed,
          fmt::format("numbers from {} to {} as 1,2,4 or 1..3", least, most));
    }
    for (int value = low; value <= high; ++value)
      if (seen.insert(value).second) values.push_back(value);
  }
  return values;
}

double parse_tokens(std::string_view flag, const std::string& typed) {
  const double tokens = parse_count(typed);
  if (tokens < 1) refuse(flag, typed, "one token or more, as 4M");
  return tokens;
}

double parse_price(const std::string& typed) {
  double value = 0;
  const auto [stop, problem] =
      std::from_chars(typed.data(), typed.data() + typed.size(), value);
  constexpr double kMost = 1e6;
  const bool whole = stop == typed.data() + typed.size();
  if (problem != std::errc{} || !whole || !(value > 0) || value > kMost)
    refuse("--price", typed, "US dollars an hour, as 2.5");
  return value;
}

double parse_number(std::string_view flag, const std::string& typed,
                    double least, double most) {
  double value = 0;
  const auto [stop, problem] =
      std::from_chars(typed.data(), typed.data() + typed.size(), value);
  const bool whole = stop == typed.data() + typed.size();
  const bool in_range = least <= value && value <= most;
  if (problem != std::errc{} || !whole || !in_range)
    refuse(flag, typed, fmt::format("a number from {} to {}", least, most));
  return value;
}

namespace {

/// A number or a percentage within `range`.
std::optional<double> number_within(const std::string& typed,
                                    const Range& range) {
  const bool percent = typed.ends_with('%');
  const std::string number =
      percent ? typed.substr(0, typed.size() - 1) : typed;
  double value = 0;
  const auto [stop, problem] =
      std::from_chars(number.data(), number.data() + number.size(), value);
  constexpr double kPercent = 100;
  if (percent) value /= kPercent;
  const bool whole = stop == number.data() + number.size();
  if (problem != std::errc{} || !whole || !std::isfinite(value)) return {};
  if (value < range.least || value > range.most) return {};
  return value;
}

}  // namespace

double parse_number(std::string_view flag, const std::string& typed,
                    const Range& range, const char* form) {
  const auto value = number_within(typed, range);
  if (!value) refuse(flag, typed, form);
  return *value;
}

double parse_share(std::string_view flag, const std::string& typed) {
  const auto value = number_within(typed, {0, 1});
  if (!value || *value >= 1) refuse(flag, typed, "a share such as 5% or 0.05");
  return *value;
}

}  // namespace ztplan
