#include <doctest/doctest.h>

#include <optional>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "strategy/stages.h"
#include "support/any_engine.h"
#include "support/setting_case.h"

using namespace ztplan;

namespace {

/// Mostly powers of two, sometimes something odd, zero or huge.
int any_size(std::mt19937& random) {
  switch (random() % 12) {
    case 0:
      return static_cast<int>(random() % 40);
    case 1:
      return kMaxSize;
    default:
      return 1 << random() % 5;
  }
}

template <class Enum>
Enum any_of(std::mt19937& random, unsigned count) {
  return static_cast<Enum>(random() % count);
}

Recompute any_recompute(std::mt19937& random) {
  return {.mode = any_of<Recompute::Mode>(random, 3),
          .attention = random() % 3 == 0,
          .norms = random() % 3 == 0,
          .activation = random() % 3 == 0,
          .mla_up_proj = random() % 6 == 0,
          .mlp = random() % 6 == 0,
          .moe = random() % 6 == 0,
          .shared_experts = random() % 6 == 0,
          .op = random() % 6 == 0,
          .layers = static_cast<int>(random() % 3)};
}

std::optional<std::int64_t> any_elements(std::mt19937& random) {
  if (random() % 8 != 0) return std::nullopt;
  return 1000 * (1 + static_cast<std::int64_t>(random() % 1000));
}

Tuning any_tuning(std::mt19937& random) {
  Tuning t;
  t.bucket = any_elements(random);
  t.prefetch = any_elements(random);
  t.live = any_elements(random);
  t.persistent = any_elements(random);
  t.persistent_total = any_elements(random);
  if (random() % 4 == 0) t.communication = any_of<Precision>(random, 4);
  if (random() % 4 == 0) t.compression = any_of<Compression>(random, 4);
  if (random() % 6 == 0) t.secondary = 1 + static_cast<int>(random() % 20);
  t.quantized_weights = random() % 8 == 0;
  return t;
}

Strategy any_strategy(std::mt19937& random) {
  Strategy s;
  for (int Strategy::*size :
       {&Strategy::tensor, &Strategy::pipeline, &Strategy::context,
        &Strategy::micro_batch, &Strategy::expert}) {
    if (random() % 2 == 0) s.*size = any_size(random);
  }
  if (random() % 4 == 0) s.virtual_stages = any_size(random);
  s.data = random() % 4 == 0 ? any_size(random)
                             : std::max(1, 16 / std::max(1, devices(s)));
  s.zero = static_cast<int>(random() % 5);
  s.shard_group = random() % 3 == 0 ? any_size(random) : 0;
  s.sequence_parallel = random() % 2 == 0;
  s.offload = {any_of<OffloadTier>(random, 3), any_of<OffloadTier>(random, 3)};
  if (random() % 2 == 0) s.recompute = any_recompute(random);
  s.schedule = any_of<Schedule>(random, 3);
  s.context_kind = any_of<ContextKind>(random, 2);
  s.ends_as_layers = random() % 5 == 0;
  if (random() % 5 == 0) s.stage_layers = {5, 7};
  if (random() % 2 == 0) s.tuning = any_tuning(random);
  return s;
}

/// Mostly what is usual, so that later rules are reached too.
void train_anyhow(std::mt19937& random, Workload& w) {
  w.gradient = random() % 2 == 0 ? w.precision : any_of<Precision>(random, 4);
  if (random() % 3 == 0) w.optimizer = any_of<OptimizerKind>(random, 8);
  if (random() % 5 == 0) w.moments = any_of<Precision>(random, 4);
  if (random() % 5 == 0) w.parameter = any_of<Precision>(random, 4);
  if (random() % 4 != 0) return;
  w.adapters = {.rank = 8, .q = true, .v = true};
  w.quantize = any_of<Quantize>(random, 4);
}

SettingCase any_case(std::mt19937& random) {
  SettingCase world = small_case();
  if (random() % 2 == 0) world.model = small_moe();
  world.model.layers[0].count = 1 + static_cast<int>(random() % 40);
  world.model.layers[0].layer.attention.causal = random() % 2 == 0;
  world.workload.sequence = 1 + static_cast<int>(random() % 3000);
  world.workload.global_batch = static_cast<int>(random() % 200);
  world.workload.precision = any_of<Precision>(random, 4);
  world.workload.attention = any_of<AttentionKernel>(random, 3);
  if (random() % 2 == 0) train_anyhow(random, world.workload);
  if (random() % 3 == 0) world.cluster.host.nvme = Bytes{0};
  return world;
}

/// A world whose common rules hold, so that engines are asked.
SettingCase usual_case(std::mt19937& random) {
  SettingCase world = small_case();
  if (random() % 3 == 0) world.model = small_moe();
  world.workload.precision =
      random() % 3 == 0 ? any_of<Precision>(random, 4) : Precision::bf16;
  world.workload.gradient =
      random() % 2 == 0 ? Precision::fp32 : Precision::bf16;
  if (random() % 4 == 0) world.workload.sequence = 1920;
  if (random() % 3 == 0) train_anyhow(random, world.workload);
  if (random() % 4 == 0) world.cluster.device.architecture = "Turing";
  return world;
}

Strategy usual_strategy(std::mt19937& random, const SettingCase& world) {
  Strategy s;
  for (int Strategy::*size : {&Strategy::tensor, &Strategy::pipeline,
                              &Strategy::context, &Strategy::expert}) {
    if (random() % 2 == 0) s.*size = 1 << random() % 4;
  }
  s.data = std::max(1, world.cluster.devices / devices(s));
  s.zero = static_cast<int>(random() % 4);
  if (random() % 3 == 0) s.shard_group = 1 << random() % 4;
  s.sequence_parallel = s.tensor > 1 && random() % 2 == 0;
  if (random() % 2 == 0) s.offload.optimizer = any_of<OffloadTier>(random, 3);
  if (random() % 3 == 0) s.offload.parameters = any_of<OffloadTier>(random, 3);
  constexpr const char* kRecompute[] = {
      "none",         "none",
      "none",         "selective:norms",
      "selective:op", "selective:mlp+mla_up_proj",
      "selective:moe"};
  s.recompute = parse_recompute(kRecompute[random() % 7]);
  if (random() % 4 == 0) s.schedule = any_of<Schedule>(random, 7);
  s.context_kind = any_of<ContextKind>(random, 2);
  if (random() % 3 == 0) s.tuning = any_tuning(random);
  return s;
}

std::vector<std::string> pieces(const std::string& text, const char* between) {
  const std::regex separator(between);
  return {std::sregex_token_iterator(text.begin(), text.end(), separator, -1),
          {}};
}

/// What "zero 0 or 1" and "schedule=1f1b" make of `strategy`; nothing for
/// words that are not of a strategy.
std::vector<Strategy> as_said(const Strategy& strategy,
                              const std::string& words) {
  static const std::regex sizes(
      "(tp|pp|vpp|cp|ep|dp|zero|shard|hpz) ([0-9]+"
      "(?:, [0-9]+)*(?: or [0-9]+)?)");
  static const std::regex assigned("[a-z_]+=[^ ]+");
  if (std::regex_match(words, assigned))
    return {overlay_strategy(strategy, words, 0)};
  std::smatch match;
  if (!std::regex_match(words, match, sizes)) return {};
  std::vector<Strategy> found;
  for (const std::string& value : pieces(match[2], ", | or "))
    found.push_back(
        overlay_strategy(strategy, match[1].str() + "=" + value, 0));
  return found;
}

/// The strategies that one alternative names: "zero 0 or 1 with pp 2".
std::vector<Strategy> offered(const Strategy& strategy,
                              const std::string& alternative) {
  std::vector<Strategy> all = {strategy};
  for (const std::string& words : pieces(alternative, " with | and ")) {
    std::vector<Strategy> more;
    for (const Strategy& each : all)
      for (const Strategy& said : as_said(each, words)) more.push_back(said);
    all = std::move(more);
  }
  return all;
}

}  // namespace

TEST_CASE("what a misfit offers no longer breaks its rule") {
  std::mt19937 random(7);
  std::set<std::string> rules;
  for (int round = 0; round < 6000; ++round) {
    const SettingCase world = usual_case(random);
    const Strategy strategy = usual_strategy(random, world);
    for (const Engine* engine : engines()) {
      const Rule* rule = broken_rule(*engine, world.setting(), strategy);
      if (rule == nullptr) continue;
      const Misfit misfit = explain(*engine, *rule, world.setting(), strategy);
      CAPTURE(to_text(strategy));
      CAPTURE(misfit.rule);
      CAPTURE(misfit.nearest);
      for (const std::string& alternative : pieces(misfit.nearest, ", or |; "))
        for (const Strategy& other : offered(strategy, alternative)) {
          rules.insert(std::string(engine->name) + "/" + misfit.rule);
          CAPTURE(to_text(other));
          REQUIRE(broken_rule(*engine, world.setting(), other) != rule);
        }
    }
  }
  CHECK(rules.size() > 60);
}

TEST_CASE("any strategy gets a verdict, and a misfit that says why") {
  std::mt19937 random(5);
  int legal = 0;
  for (int round = 0; round < 4000; ++round) {
    const SettingCase world = any_case(random);
    const Strategy strategy = any_strategy(random);
    CAPTURE(to_text(strategy));
    std::vector<const Engine*> all(engines().begin(), engines().end());
    all.push_back(&any_engine());
    for (const Engine* engine : all) {
      const auto misfit = why_illegal(*engine, world.setting(), strategy);
      if (!misfit) {
        ++legal;
        continue;
      }
      REQUIRE(!misfit->detail.empty());
      REQUIRE(!misfit->nearest.empty());
      REQUIRE(!misfit->source.empty());
      REQUIRE(!misfit->rule.empty());
    }
  }
  CHECK(legal > 0);
}

TEST_CASE("a legal strategy uses every device, layer and sequence of a batch") {
  std::mt19937 random(6);
  for (int round = 0; round < 20000; ++round) {
    const SettingCase world = any_case(random);
    const Strategy s = any_strategy(random);
    const Engine& engine = any_engine();
    if (why_illegal(engine, world.setting(), s)) continue;
    CAPTURE(to_text(s));
    REQUIRE(devices(s) == world.cluster.devices);
    REQUIRE(micro_batches(s, world.workload) * s.data * s.micro_batch ==
            world.workload.global_batch);
    int layers = 0;
    for (const int count : chunk_layers(world.model.layers[0].count, s)) {
      layers += count;
    }
    REQUIRE(layers == world.model.layers[0].count);
    REQUIRE(s.data * s.context % zero_group(s) == 0);
    REQUIRE(s.tensor * s.context * s.data % s.expert == 0);
  }
}
