#include "exec/saved_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace ztplan {
namespace {

constexpr std::array<const char*, kStateKinds> kSuffixes{"", ".first_moment",
                                                         ".second_moment"};

bool is_table(const Parameter& parameter) {
  return parameter.name == "embedding.weight" ||
         parameter.name == "head.weight";
}

/// Rows of the whole parameter, the vocabulary unpadded.
std::int64_t rows_of(const ModelSpec& model, const Parameter& parameter) {
  return is_table(parameter) ? model.vocab : parameter.rows;
}

/// What of the parameter lies here, but for padding.
Block block_of(const ModelSpec& model, const Parameter& parameter) {
  const std::int64_t rows = std::clamp<std::int64_t>(
      rows_of(model, parameter) - parameter.first_row, 0, parameter.local_rows);
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

}  // namespace

StatesToSave states_to_save(RankEngine& rank) {
  const ModelSpec& model = rank.context().model;
  StatesToSave saved;
  for_each_flat(rank, [&](const Unit& unit, const FlatState& flat) {
    const int shard_rank = rank.states().shard_of(flat).rank;
    for (std::size_t kind = 0; kind < kStateKinds; ++kind) {
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
             rows_of(model, parameter),
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
                       rows_of(model, parameter), parameter, block);
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

}  // namespace ztplan
