#include "exec/saved_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace ztplan {
namespace {

struct State {
  const char* suffix;
  Array StageStates::Shard::*array;
};
constexpr std::array<State, 3> kStates{
    {{"", &StageStates::Shard::masters},
     {".first_moment", &StageStates::Shard::first_moment},
     {".second_moment", &StageStates::Shard::second_moment}}};

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

/// Calls `visit(flat, shard, parameter)` for all of the rank that `wanted`.
template <class Visit>
void for_each_parameter(const RankEngine& rank, const Visit& visit) {
  for (const auto& chunk : rank.units().chunks)
    for (const Unit& unit : chunk)
      for (const FlatState& flat : unit.flats) {
        if (flat.borrowed) continue;
        const StageStates::Shard shard = rank.states().shard_of(flat);
        for (const Parameter& parameter : flat.flat.parameters)
          visit(unit, flat, shard, parameter);
      }
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

std::span<const std::byte> bytes_of(const Array& shard, std::int64_t from,
                                    std::int64_t size) {
  const Array part = slice(shard, from, size);
  return {part.data,
          static_cast<std::size_t>(size * ztplan::bytes_of(part.dtype))};
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

std::vector<TensorToSave> states_to_save(const RankEngine& rank) {
  const ModelSpec& model = rank.context().model;
  std::vector<TensorToSave> tensors;
  for_each_parameter(
      rank, [&](const Unit& unit, const FlatState& flat,
                const StageStates::Shard& shard, const Parameter& parameter) {
        if (!answers_for(rank, unit, flat, parameter)) return;
        const Block block = block_of(model, parameter);
        const Owned owned = owned_of(flat, shard.rank, parameter, block.size());
        if (!owned.any()) return;
        const std::int64_t at =
            parameter.offset + owned.from - shard.rank * flat.shard;
        for (const State& state : kStates)
          tensors.push_back(
              {parameter.name + state.suffix,
               Precision::fp32,
               rows_of(model, parameter),
               parameter.columns,
               {block, owned.from, owned.until},
               bytes_of(shard.*state.array, at, owned.until - owned.from)});
      });
  return tensors;
}

void load_states(RankEngine& rank, Checkpoint& checkpoint) {
  const RankContext& context = rank.context();
  for_each_parameter(rank, [&](const Unit&, const FlatState& flat,
                               const StageStates::Shard& shard,
                               const Parameter& parameter) {
    const Block block = block_of(context.model, parameter);
    const Owned owned = owned_of(flat, shard.rank, parameter, block.size());
    if (!owned.any()) return;
    const std::int64_t at =
        parameter.offset + owned.from - shard.rank * flat.shard;
    for (const State& state : kStates) {
      const std::vector<float> values =
          read_block(checkpoint, parameter.name + state.suffix,
                     rows_of(context.model, parameter), parameter, block);
      const Array to = slice(shard.*state.array, at, owned.until - owned.from);
      context.device.copy(
          Lane::compute, to.data,
          reinterpret_cast<const std::byte*>(values.data() + owned.from),
          Bytes{to.size * ztplan::bytes_of(to.dtype)});
      context.device.synchronize();
    }
  });
  rank.settle_weights();
}

}  // namespace ztplan
