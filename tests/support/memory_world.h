// Models, machines and strategies that memory tests speak of.
#pragma once

#include <utility>

#include "strategy/ledger.h"

namespace ztplan {

inline Layer gpt_layer(int hidden, int heads) {
  Layer layer;
  layer.attention.heads = heads;
  layer.attention.kv_heads = heads;
  layer.attention.head_size = hidden / heads;
  layer.attention.qkv_bias = true;
  layer.attention.output_bias = true;
  layer.ffn.width = 4 * hidden;
  layer.ffn.bias = true;
  return layer;
}

/// GPT-2 and its kin: LayerNorm, GELU, biases, learned positions, tied.
inline ModelSpec gpt(int layers, int hidden, int heads, int vocab) {
  ModelSpec model;
  model.name = "gpt";
  model.hidden = hidden;
  model.vocab = vocab;
  model.sequence = 2048;
  model.position_rows = 2048;
  model.tied = true;
  model.layers = {{layers, gpt_layer(hidden, heads)}};
  return model;
}

/// Llama and its kin: RMSNorm, gated MLP, rotary positions, untied.
inline ModelSpec llama(int layers, int hidden, int heads, int kv_heads,
                       int width, int vocab) {
  Layer layer = gpt_layer(hidden, heads);
  layer.attention.kv_heads = kv_heads;
  layer.attention.qkv_bias = false;
  layer.attention.output_bias = false;
  layer.ffn = {};
  layer.ffn.width = width;
  layer.ffn.gated = true;
  layer.ffn.activation = Activation::silu;
  ModelSpec model;
  model.name = "llama";
  model.hidden = hidden;
  model.vocab = vocab;
  model.sequence = 2048;
  model.norm = Norm::rms;
  model.positions = Positions::rotary;
  model.layers = {{layers, layer}};
  return model;
}

inline ModelSpec llama3_8b() { return llama(32, 4096, 32, 8, 14336, 128256); }
inline ModelSpec llama3_70b() { return llama(80, 8192, 64, 8, 28672, 128256); }

inline Workload workload(int sequence, int global_batch) {
  Workload work;
  work.sequence = sequence;
  work.global_batch = global_batch;
  return work;
}

/// `devices` of 80 GB in nodes of eight joined by NVLink.
inline ClusterSpec cluster_of(int devices) {
  ClusterSpec cluster;
  cluster.device.memory = Bytes{80 * kGiB};
  cluster.device.architecture = "Ampere";
  cluster.levels.resize(2);
  cluster.levels[0].kind = LinkKind::nvlink;
  cluster.levels[0].fanout = devices < 8 ? devices : 8;
  cluster.levels[1].fanout = devices < 8 ? 1 : devices / 8;
  cluster.devices = devices;
  cluster.devices_per_node = cluster.levels[0].fanout;
  return cluster;
}

inline Engine engine_named(const char* name) {
  constexpr std::int64_t kBucket = 40'000'000;
  return {name, "test", {}, 128, kBucket, find_engine(name).memory};
}

/// A question of memory and what answers it, kept alive together.
struct World {
  ModelSpec model;
  Workload work;
  Strategy strategy;
  Engine engine = engine_named("megatron");
  ClusterSpec cluster = cluster_of(devices(strategy));

  Setting setting() const { return {model, cluster, work}; }
  Ledger ledger_of(int stage) const {
    const LayerKinds kinds = layer_kinds(model);
    return ledger(
        setting(), engine, stage_sizes(setting(), engine, kinds, strategy),
        stage_shapes(kinds, strategy)[static_cast<std::size_t>(stage)],
        strategy, stage);
  }
  MemoryBreakdown stage(int stage) const {
    return estimate_memory(ledger_of(stage), stage);
  }
  StageShare share(int stage) const {
    const LayerKinds kinds = layer_kinds(model);
    return stage_share(
        setting(), stage_sizes(setting(), engine, kinds, strategy),
        stage_shapes(kinds, strategy)[static_cast<std::size_t>(stage)]);
  }
};

inline World world(ModelSpec model, Workload work, const char* strategy) {
  return {std::move(model), std::move(work), parse_strategy(strategy, 0)};
}

inline World with_engine(World world, const char* engine) {
  world.engine = engine_named(engine);
  return world;
}

inline World with_gradients(World world, Precision gradient) {
  world.work.gradient = gradient;
  return world;
}

/// Weights, gradients and optimizer states on the device.
inline Bytes states(const MemoryBreakdown& memory) {
  return memory[Term::parameters] + memory[Term::gradients] +
         memory[Term::optimizer];
}

}  // namespace ztplan
