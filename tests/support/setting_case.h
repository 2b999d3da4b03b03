// A small world for questions of legality: a GPT of 12 layers and 16 heads on
// two nodes of eight H100. Tests change what they are about.
#pragma once

#include <doctest/doctest.h>

#include <set>
#include <span>
#include <string>
#include <string_view>

#include "strategy/engine.h"

namespace ztplan {

struct SettingCase {
  ModelSpec model;
  ClusterSpec cluster;
  Workload workload;
  Setting setting() const { return {model, cluster, workload}; }
};

inline ModelSpec small_gpt() {
  ModelSpec model;
  model.name = "small-gpt";
  model.hidden = 2048;
  model.vocab = 50257;
  model.sequence = 2048;
  model.position_rows = 2048;
  LayerGroup group;
  group.count = 12;
  group.layer.attention.heads = 16;
  group.layer.attention.kv_heads = 8;
  group.layer.attention.head_size = 128;
  group.layer.ffn.width = 8192;
  model.layers = {group};
  return model;
}

inline ModelSpec small_moe() {
  ModelSpec model = small_gpt();
  model.name = "small-moe";
  FeedForward& ffn = model.layers[0].layer.ffn;
  ffn.experts = 8;
  ffn.top_k = 2;
  ffn.expert_width = 1024;
  return model;
}

inline Level level_of(const char* name, int fanout) {
  Level level;
  level.name = name;
  level.fanout = fanout;
  level.bandwidth = BytesPerSecond{1e9};
  return level;
}

inline ClusterSpec two_nodes() {
  ClusterSpec cluster;
  cluster.name = "two-nodes";
  cluster.device.name = "H100";
  cluster.device.architecture = "Hopper";
  cluster.device.fp32 = FlopsPerSecond{67e12};
  cluster.device.fp16 = FlopsPerSecond{989e12};
  cluster.device.bf16 = FlopsPerSecond{989e12};
  cluster.device.fp8 = FlopsPerSecond{1979e12};
  cluster.levels = {level_of("nvlink", 8), level_of("network", 2)};
  cluster.devices = 16;
  cluster.devices_per_node = 8;
  cluster.host.nvme = Bytes{std::int64_t{4} * 1000 * 1000 * 1000 * 1000};
  return cluster;
}

inline SettingCase small_case() {
  SettingCase world{small_gpt(), two_nodes(), {}};
  world.workload.sequence = 2048;
  world.workload.global_batch = 64;
  return world;
}

/// The name of the first rule that `text` breaks, or "legal".
inline std::string verdict(const Engine& engine, const SettingCase& world,
                           std::string_view text) {
  const Strategy strategy = parse_strategy(text, world.cluster.devices);
  const Rule* rule = broken_rule(engine, world.setting(), strategy);
  return rule ? rule->name : "legal";
}

/// Why `text` is illegal. Requires that it is.
inline Misfit misfit_of(const Engine& engine, const SettingCase& world,
                        std::string_view text) {
  const Strategy strategy = parse_strategy(text, world.cluster.devices);
  return why_illegal(engine, world.setting(), strategy).value();
}

using Change = void (*)(SettingCase&);
inline void keep(SettingCase&) {}

/// In the world as `change` leaves it `legal` breaks no rule; once `spoil` has
/// changed it too, `illegal` breaks `rule` before any other.
struct RuleRow {
  const char* rule;
  Change change;
  const char* legal;
  Change spoil;
  const char* illegal;
};

/// Every rule of `engine` by one legal and one illegal strategy.
inline void check_rules(const Engine& engine, std::span<const RuleRow> rows) {
  std::set<std::string> cases, names;
  for (const RuleRow& row : rows) {
    CAPTURE(std::string(row.rule));
    cases.insert(row.rule);
    SettingCase world = small_case();
    row.change(world);
    CHECK(verdict(engine, world, row.legal) == "legal");
    row.spoil(world);
    CHECK(verdict(engine, world, row.illegal) == row.rule);
    const Misfit misfit = misfit_of(engine, world, row.illegal);
    CHECK(misfit.engine == engine.name);
    CHECK(!misfit.detail.empty());
    CHECK(!misfit.nearest.empty());
    CHECK(!misfit.source.empty());
  }
  for (const Rule& rule : engine.rules) names.insert(rule.name);
  CHECK(names == cases);
}

}  // namespace ztplan
