#include "exec/saved_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>

#include "base/error.h"

namespace ztplan {
namespace {

constexpr std::array<const char*, kStateKinds> kSuffixes{"", ".first_moment",
                                                         ".second_moment"};

/// What of the parameter lies here, but for padding.
Block block_of(const ModelSpec& model, const Parameter& parameter) {
  const std::int64_t rows = std::clamp<std::int64_t>(
      unpadded_rows(model, parameter) - parameter.first_row, 0,
      parameter.local_rows);
  return {parameter.first_row, rows, parameter.first_column,
          parameter.local_columns};
}

/// Elements [from, until) of the local parameter that are in this rank's shard
/// of its flat buffer.
struct Owned {
  std::int64_t from = 0, until = 0;
  bool any() const { return from < until; }
};
Owned owned_of(const FlatState& flat, int shard_rank,
               const Parameter& parameter, std::int64_t size) {
  const std::int64_t begin = shard_rank * flat.shard;
  return {std::max<std::int64_t>(0, begin - parameter.offset),
          std::min(size, begin + flat.shard - parameter.offset)};
}

/// Calls `visit(unit, flat)` for all that the rank owns.
template <class Visit>
void for_each_flat(const RankEngine& rank, const Visit& visit) {
  for (const auto& chunk : rank.units().chunks)
    for (const Unit& unit : chunk)
      for (const FlatState& flat : unit.flats)
        if (!flat.borrowed) visit(unit, flat);
}

/// Of those that hold an element, the first answers for it.
bool answers_for(const RankEngine& rank, const Unit& unit,
                 const FlatState& flat, const Parameter& parameter) {
  const RankContext& context = rank.context();
  const bool is_tied_copy =
      unit.kind == UnitKind::head && context.model.tied && is_table(parameter);
  const bool is_whole = parameter.offset < flat.flat.whole;
  return !is_tied_copy && rank.states().holders(flat).replicas.rank() == 0 &&
         (!is_whole || context.position.tensor == 0);
}

/// The parameter's block of one state, from the checkpoint.
std::vector<float> read_block(Checkpoint& checkpoint, const std::string& name,
                              std::int64_t rows, const Parameter& parameter,
                              const Block& block) {
  const auto& tensors = checkpoint.manifest().tensors;
  const auto at = tensors.find(name);
  if (at == tensors.end())
    throw Error(fmt::format("the checkpoint has no {}", name),
                "resume with the model it was made of");
  if (at->second.rows != rows || at->second.columns != parameter.columns)
    throw Error(
        fmt::format("{} is {} x {} in the checkpoint and {} x {} in the model",
                    name, at->second.rows, at->second.columns, rows,
                    parameter.columns),
        "resume with the model it was made of");
  std::vector<float> values(static_cast<std::size_t>(block.size()));
  checkpoint.read(name, block, std::as_writable_bytes(std::span(values)));
  return values;
}

/// Of the states of the first `kinds` kinds.
StatesToSave first_states(RankEngine& rank, std::size_t kinds) {
  const ModelSpec& model = rank.context().model;
  StatesToSave saved;
  for_each_flat(rank, [&](const Unit& unit, const FlatState& flat) {
    const int shard_rank = rank.states().shard_of(flat).rank;
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      saved.values.push_back(
          rank.states().read_states(flat, static_cast<StateKind>(kind)));
      const std::span<const float> values = saved.values.back();
      for (const Parameter& parameter : flat.flat.parameters) {
        if (!answers_for(rank, unit, flat, parameter)) continue;
        const Block block = block_of(model, parameter);
        const Owned owned = owned_of(flat, shard_rank, parameter, block.size());
        if (!owned.any()) continue;
        const std::int64_t at =
            parameter.offset + owned.from - shard_rank * flat.shard;
        saved.tensors.push_back(
            {parameter.name + kSuffixes[kind],
             Precision::fp32,
             unpadded_rows(model, parameter),
             parameter.columns,
             {block, owned.from, owned.until},
             std::as_bytes(values.subspan(
                 static_cast<std::size_t>(at),
                 static_cast<std::size_t>(owned.until - owned.from)))});
      }
    }
  });
  return saved;
}

}  // namespace

StatesToSave states_to_save(RankEngine& rank) {
  return first_states(rank, kStateKinds);
}

void load_states(RankEngine& rank, Checkpoint& checkpoint) {
  const ModelSpec& model = rank.context().model;
  for_each_flat(rank, [&](const Unit&, const FlatState& flat) {
    const int shard_rank = rank.states().shard_of(flat).rank;
    for (std::size_t kind = 0; kind < kStateKinds; ++kind) {
      std::vector<float> shard(static_cast<std::size_t>(flat.shard));
      for (const Parameter& parameter : flat.flat.parameters) {
        const Block block = block_of(model, parameter);
        const Owned owned = owned_of(flat, shard_rank, parameter, block.size());
        if (!owned.any()) continue;
        const std::vector<float> values =
            read_block(checkpoint, parameter.name + kSuffixes[kind],
                       unpadded_rows(model, parameter), parameter, block);
        const std::int64_t at =
            parameter.offset + owned.from - shard_rank * flat.shard;
        std::copy(values.begin() + owned.from, values.begin() + owned.until,
                  shard.begin() + at);
      }
      rank.states().write_states(flat, static_cast<StateKind>(kind), shard);
    }
  });
  rank.settle_weights();
}

namespace {

/// Shapes of all parameters of the model that this rank knows of.
ParameterShape shape_of(const ModelSpec& model, const Parameter& parameter) {
  return {unpadded_rows(model, parameter), parameter.columns};
}

/// Of the whole model.
std::vector<std::string> parameter_names(const ModelSpec& model) {
  std::vector<std::string> names;
  const auto add = [&](const Flat& flat) {
    for (const Parameter& parameter : flat.parameters)
      names.push_back(parameter.name);
  };
  add(table_flat(model, "embedding.weight", {}, model.vocab, {}));
  add(positions_flat(model));
  int number = 0;
  for (const LayerGroup& group : model.layers)
    for (int i = 0; i < group.count; ++i, ++number) {
      const LayerFlats flats = layer_flats(model, group.layer, number, {}, {});
      add(flats.dense);
      add(flats.experts);
    }
  add(final_norm_flat(model));
  if (!model.tied) add(table_flat(model, "head.weight", {}, model.vocab, {}));
  return names;
}

/// A block of a parameter in fp32.
std::vector<float> read_their_block(const HuggingFaceWeights& weights,
                                    const std::string& name,
                                    const Block& block) {
  const Precision dtype = weights.dtype(name);
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(block.size() * bytes_of(dtype)));
  weights.read(name, block, bytes);
  std::vector<float> values(static_cast<std::size_t>(block.size()));
  if (values.empty()) return values;
  const Array from{bytes.data(), block.size(), dtype};
  const Array to{reinterpret_cast<std::byte*>(values.data()), block.size(),
                 Precision::fp32};
  run_on_cpu(kernels::Copy{as_matrix(from, from.size), as_matrix(to, to.size)});
  return values;
}

void check_shape(const HuggingFaceWeights& weights, const ModelSpec& model,
                 const Parameter& parameter) {
  if (!weights.has(parameter.name))
    throw Error(fmt::format("the checkpoint has no {}", parameter.name),
                "take the model it is of");
  const ParameterShape theirs = weights.shape(parameter.name);
  const ParameterShape ours = shape_of(model, parameter);
  if (theirs == ours) return;
  throw Error(fmt::format("{} is {} x {} in the checkpoint and {} x {} in {}",
                          parameter.name, theirs.rows, theirs.columns,
                          ours.rows, ours.columns, model.name),
              "take the model it is of");
}

}  // namespace

WeightNames weight_names_of(const ModelSpec& model) {
  const FeedForward& ffn = model.layers.front().layer.ffn;
  if (model.norm == Norm::layer) return WeightNames::gpt2;
  if (!ffn.is_moe()) return WeightNames::llama;
  return ffn.shared_width > 0 ? WeightNames::qwen2_moe : WeightNames::mixtral;
}

void load_weights(RankEngine& rank, const HuggingFaceWeights& weights) {
  const ModelSpec& model = rank.context().model;
  const std::vector<std::string> unused =
      weights.left_over(parameter_names(model));
  if (!unused.empty())
    throw Error(fmt::format("{} has no place for {} of the checkpoint",
                            model.name, unused.front()),
                "take the model it is of");
  for_each_flat(rank, [&](const Unit&, const FlatState& flat) {
    const int shard_rank = rank.states().shard_of(flat).rank;
    std::vector<float> shard(static_cast<std::size_t>(flat.shard));
    for (const Parameter& parameter : flat.flat.parameters) {
      check_shape(weights, model, parameter);
      const Block block = block_of(model, parameter);
      const Owned owned = owned_of(flat, shard_rank, parameter, block.size());
      if (!owned.any()) continue;
      const std::vector<float> values =
          read_their_block(weights, parameter.name, block);
      std::copy(values.begin() + owned.from, values.begin() + owned.until,
                shard.begin() + parameter.offset + owned.from -
                    shard_rank * flat.shard);
    }
    rank.states().write_states(flat, StateKind::master, shard);
  });
  rank.settle_weights();
}

namespace {

/// What of a weight follows in a text.
struct PartHead {
  std::string name;
  ParameterShape shape;
  TensorPart part;
};

PartHead take_head(std::string_view& text) {
  const std::size_t end = text.find('\n');
  require(end != std::string_view::npos, "a part of a weight has a head");
  std::istringstream words{std::string(text.substr(0, end))};
  text.remove_prefix(end + 1);
  PartHead head;
  Block& block = head.part.block;
  words >> head.name >> head.shape.rows >> head.shape.columns >> block.row >>
      block.rows >> block.column >> block.columns >> head.part.from >>
      head.part.until;
  return head;
}

void take_values(std::string_view& text, const TensorPart& part,
                 WholeWeight& weight) {
  const Block& block = part.block;
  for (std::int64_t i = part.from; i < part.until; ++i) {
    const std::int64_t row = block.row + i / block.columns;
    const std::int64_t column = block.column + i % block.columns;
    const auto at =
        static_cast<std::size_t>(row * weight.shape.columns + column);
    std::memcpy(&weight.values[at], text.data(), sizeof(float));
    text.remove_prefix(sizeof(float));
  }
}

}  // namespace

std::string weights_text(RankEngine& rank) {
  static_assert(static_cast<std::size_t>(StateKind::master) == 0);
  std::string text;
  const StatesToSave masters = first_states(rank, 1);
  for (const TensorToSave& tensor : masters.tensors) {
    const TensorPart& part = tensor.part;
    const Block& block = part.block;
    text += fmt::format("{} {} {} {} {} {} {} {} {}\n", tensor.name,
                        tensor.rows, tensor.columns, block.row, block.rows,
                        block.column, block.columns, part.from, part.until);
    text.append(reinterpret_cast<const char*>(tensor.bytes.data()),
                tensor.bytes.size());
  }
  return text;
}

void add_weights(std::string_view text, WholeWeights& weights) {
  while (!text.empty()) {
    const PartHead head = take_head(text);
    WholeWeight& weight = weights[head.name];
    weight.shape = head.shape;
    weight.values.resize(
        static_cast<std::size_t>(head.shape.rows * head.shape.columns));
    take_values(text, head.part, weight);
  }
}

void save_weights(const ModelSpec& model, const WholeWeights& weights,
                  const std::string& path) {
  std::map<std::string, TensorView> tensors;
  for (const auto& entry : weights) {
    const ParameterShape& shape = entry.second.shape;
    std::vector<std::int64_t> sizes{shape.columns};
    if (shape.rows > 1) sizes = {shape.rows, shape.columns};
    tensors[entry.first] = {Precision::fp32, std::move(sizes),
                            std::as_bytes(std::span(entry.second.values))};
  }
  write_huggingface(path, weight_names_of(model), tensors);
}

}  // namespace ztplan
