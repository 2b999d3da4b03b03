#include <doctest/doctest.h>

#include <random>
#include <string>

#include "strategy/stages.h"
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
          .op = random() % 6 == 0,
          .layers = static_cast<int>(random() % 3)};
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
  return s;
}

SettingCase any_case(std::mt19937& random) {
  SettingCase world = small_case();
  if (random() % 2 == 0) world.model = small_moe();
  world.model.layers[0].count = 1 + static_cast<int>(random() % 40);
  world.model.layers[0].layer.attention.causal = random() % 2 == 0;
  world.workload.sequence = 1 + static_cast<int>(random() % 3000);
  world.workload.global_batch = static_cast<int>(random() % 200);
  world.workload.precision = any_of<Precision>(random, 4);
  world.workload.attention = any_of<AttentionKernel>(random, 2);
  if (random() % 3 == 0) world.cluster.host.nvme = Bytes{0};
  return world;
}

}  // namespace

TEST_CASE("any strategy gets a verdict, and a misfit that says why") {
  std::mt19937 random(5);
  int legal = 0;
  for (int round = 0; round < 4000; ++round) {
    const SettingCase world = any_case(random);
    const Strategy strategy = any_strategy(random);
    CAPTURE(to_text(strategy));
    for (const Engine* engine : engines()) {
      const auto misfit = why_illegal(*engine, world.setting(), strategy);
      if (!misfit) {
        ++legal;
        continue;
      }
      REQUIRE(!misfit->detail.empty());
      REQUIRE(!misfit->nearest.empty());
    }
  }
  CHECK(legal > 0);
}

TEST_CASE("a legal strategy uses every device, layer and sequence of a batch") {
  std::mt19937 random(6);
  for (int round = 0; round < 20000; ++round) {
    const SettingCase world = any_case(random);
    const Strategy s = any_strategy(random);
    const Engine& engine = find_engine("native");
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
