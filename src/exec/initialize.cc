#include "exec/initialize.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "exec/random.h"

namespace ztplan {
namespace {

constexpr double kDeviation = 0.02;  // GPT-2, model.py initializer_range

double deviation(const ModelSpec& model, Initial initial) {
  return initial == Initial::residual
             ? kDeviation / std::sqrt(2.0 * layer_count(model))
             : kDeviation;
}

/// This rank's part of the parameter, row by row. Rows that pad the vocabulary
/// are 0.
void fill(const ModelSpec& model, const Parameter& parameter,
          std::uint64_t seed, std::span<float> out) {
  const bool is_drawn = parameter.initial == Initial::normal ||
                        parameter.initial == Initial::residual;
  std::ranges::fill(out, parameter.initial == Initial::one ? 1.0F : 0.0F);
  if (!is_drawn) return;
  fill_normal({parameter.name, seed, deviation(model, parameter.initial)},
              {parameter.first_row, parameter.local_rows,
               parameter.first_column, parameter.local_columns},
              parameter.columns, out);

  if (!is_table(parameter)) return;
  const std::int64_t words = std::clamp<std::int64_t>(
      model.vocab - parameter.first_row, 0, parameter.local_rows);
  std::ranges::fill(
      out.subspan(static_cast<std::size_t>(words * parameter.local_columns)),
      0.0F);
}

/// The whole flat buffer: padding is 0.
std::vector<float> values_of(const ModelSpec& model, const FlatState& flat,
                             std::uint64_t seed) {
  std::vector<float> all(static_cast<std::size_t>(flat.padded));
  for (const Parameter& parameter : flat.flat.parameters)
    fill(model, parameter, seed,
         std::span(all).subspan(static_cast<std::size_t>(parameter.offset),
                                static_cast<std::size_t>(parameter.size())));
  return all;
}

}  // namespace

void initialize_weights(const RankContext& context, StageStates& states,
                        std::uint64_t seed) {
  for (const auto& chunk : states.units().chunks)
    for (const Unit& unit : chunk)
      for (const FlatState& flat : unit.flats) {
        if (flat.borrowed) continue;
        const std::vector<float> all = values_of(context.model, flat, seed);
        const auto from =
            static_cast<std::size_t>(states.shard_of(flat).rank * flat.shard);
        states.write_states(
            flat, StateKind::master,
            std::span(all).subspan(from, static_cast<std::size_t>(flat.shard)));
      }
}

}  // namespace ztplan
