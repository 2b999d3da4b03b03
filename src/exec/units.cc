#include "exec/units.h"

#include <algorithm>

#include "base/error.h"
#include "strategy/ledger.h"

namespace ztplan {
namespace {

class UnitWriter {
 public:
  UnitWriter(const RankContext& context, const Engine& engine, int stage)
      : context_(context),
        strategy_(context.strategy),
        vocab_(padded_vocab(engine, context.model, strategy_.tensor)),
        kinds_(layer_kinds(context.model)),
        layers_(chunk_layers(layer_count(context.model), strategy_)),
        stage_(stage) {}

  StageUnits write() && {
    for (int chunk = 0; chunk < strategy_.virtual_stages; ++chunk)
      units_.chunks.push_back(chunk_units(chunk));
    place();
    return std::move(units_);
  }

 private:
  std::vector<Unit> chunk_units(int chunk) {
    const int u = virtual_stage(strategy_, stage_, chunk);
    const int last = strategy_.pipeline * strategy_.virtual_stages - 1;
    const int number = first_layer(layers_, u);
    std::vector<Unit> units;
    if (u == 0) units.push_back(embedding(chunk));
    for (int i = 0; i < layers_[static_cast<std::size_t>(u)]; ++i)
      units.push_back(layer(chunk, number + i));
    if (u == last) units.push_back(head(chunk));
    return units;
  }

  FlatState state(Flat flat) const {
    const std::int64_t parts =
        flat.experts ? expert_zero_group(strategy_) : zero_group(strategy_);
    FlatState made;
    made.shard = padded_shard(flat.size, parts);
    made.padded = made.shard * parts;
    made.flat = std::move(flat);
    return made;
  }
  void add(Unit& unit, Flat flat) const {
    if (flat.size > 0) unit.flats.push_back(state(std::move(flat)));
  }

  Unit embedding(int chunk) const {
    Unit unit{
        .kind = UnitKind::embedding, .chunk = chunk, .flats = {}, .layer = {}};
    add(unit, table_flat(context_.model, "embedding.weight", strategy_, vocab_,
                         context_.position));
    add(unit, positions_flat(context_.model));
    return unit;
  }

  Unit layer(int chunk, int number) const {
    const auto kind = static_cast<std::size_t>(
        kinds_.kind_of_layer[static_cast<std::size_t>(number)]);
    Unit unit{
        .kind = UnitKind::layer, .chunk = chunk, .flats = {}, .layer = {}};
    unit.layer =
        std::make_unique<NativeLayer>(context_, layer_at(kind), number);
    add(unit, unit.layer->flats().dense);
    add(unit, unit.layer->flats().experts);
    return unit;
  }

  /// The model's own, which outlives the units: `kinds_` does not.
  const Layer& layer_at(std::size_t kind) const {
    for (const LayerGroup& group : context_.model.layers)
      if (group.layer == kinds_.kinds[kind]) return group.layer;
    throw Bug("a kind of layer is one of the model's");
  }

  /// A tied head borrows the embedding where one stage holds both.
  Unit head(int chunk) const {
    const ModelSpec& model = context_.model;
    Unit unit{.kind = UnitKind::head, .chunk = chunk, .flats = {}, .layer = {}};
    add(unit, final_norm_flat(model));
    add(unit, table_flat(model, model.tied ? "embedding.weight" : "head.weight",
                         strategy_, vocab_, context_.position));
    unit.flats.back().borrowed = model.tied && !ends_apart(strategy_);
    return unit;
  }

  void place() {
    for (const bool experts : {false, true}) {
      for (auto& chunk : units_.chunks)
        for (Unit& unit : chunk)
          for (FlatState& flat : unit.flats)
            if (flat.flat.experts == experts) place(unit, flat);
      if (!experts) units_.dense = units_.whole;
    }
    for (auto& chunk : units_.chunks)
      for (Unit& unit : chunk) {
        std::int64_t at = 0;
        for (FlatState& flat : unit.flats) {
          flat.unit_at = at;
          at += flat.padded;
        }
        units_.largest = std::max(units_.largest, at);
      }
  }
  void place(const Unit& unit, FlatState& flat) {
    if (flat.borrowed) {
      const FlatState& lender = units_.chunks.front().front().flats.front();
      require(unit.kind == UnitKind::head && lender.padded == flat.padded,
              "a tied head borrows the embedding");
      flat.whole_at = lender.whole_at;
      flat.shard_at = lender.shard_at;
      return;
    }
    flat.whole_at = units_.whole;
    flat.shard_at = units_.shards;
    units_.whole += flat.padded;
    units_.shards += flat.shard;
  }

  const RankContext& context_;
  const Strategy& strategy_;
  std::int64_t vocab_;
  LayerKinds kinds_;
  std::vector<int> layers_;  // of each chunk in execution order
  int stage_;
  StageUnits units_;
};

}  // namespace

std::int64_t Unit::padded() const {
  std::int64_t sum = 0;
  for (const FlatState& flat : flats) sum += flat.padded;
  return sum;
}

StageUnits stage_units(const RankContext& context, const Engine& engine,
                       int stage) {
  return UnitWriter(context, engine, stage).write();
}

std::vector<OwnedRange> owned_ranges(const FlatState& state, int shard_rank) {
  const std::int64_t begin = shard_rank * state.shard;
  const std::int64_t end = begin + state.shard;
  std::vector<OwnedRange> ranges;
  for (const Parameter& parameter : state.flat.parameters) {
    const std::int64_t from = std::max(begin, parameter.offset);
    const std::int64_t until =
        std::min(end, parameter.offset + parameter.size());
    if (from >= until) continue;
    const OwnedRange range{from, until - from, parameter.rows > 1,
                           parameter.offset < state.flat.whole};
    const bool joins = !ranges.empty() &&
                       ranges.back().decays == range.decays &&
                       ranges.back().whole == range.whole;
    if (joins)
      ranges.back().size += range.size;
    else
      ranges.push_back(range);
  }
  return ranges;
}

}  // namespace ztplan
