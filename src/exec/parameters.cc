#include "exec/parameters.h"

#include <fmt/format.h>

#include "base/units.h"
#include "strategy/native_frames.h"

namespace ztplan {
namespace {

/// Puts parameters one after the other.
class FlatWriter {
 public:
  explicit FlatWriter(Flat& flat) : flat_(flat) {}

  Spot vector(const std::string& name, std::int64_t size, Initial initial) {
    return add({name, 1, size, 0, 1, 0, size, 0, initial});
  }
  /// Of `rows`, rank `part` of `parts` has its even share.
  Spot rows(const std::string& name, std::int64_t rows, std::int64_t columns,
            int part, int parts, Initial initial) {
    const std::int64_t local = rows / parts;
    return add(
        {name, rows, columns, part * local, local, 0, columns, 0, initial});
  }
  Spot columns(const std::string& name, std::int64_t rows, std::int64_t columns,
               int part, int parts, Initial initial) {
    const std::int64_t local = columns / parts;
    return add({name, rows, columns, 0, rows, part * local, local, 0, initial});
  }
  /// All so far are whole on every tensor rank.
  void end_whole() { flat_.whole = flat_.size; }

 private:
  Spot add(Parameter parameter) {
    parameter.offset = flat_.size;
    flat_.size += parameter.size();
    const Spot place{parameter.offset, parameter.local_rows,
                     parameter.local_columns};
    flat_.parameters.push_back(std::move(parameter));
    return place;
  }
  Flat& flat_;
};

/// Rows of both, one after the other.
Spot joined(const Spot& first, const Spot& second) {
  return {first.offset, first.rows + second.rows, first.columns};
}
/// Of vectors.
Spot joined_vector(const Spot& first, const Spot& second) {
  return {first.offset, 1, first.columns + second.columns};
}

class LayerWriter {
 public:
  LayerWriter(const ModelSpec& model, const Layer& layer, int number,
              const Strategy& strategy, const Position& position)
      : model_(model),
        layer_(layer),
        prefix_(fmt::format("layers.{}.", number)),
        strategy_(strategy),
        position_(position),
        dense_(flats_.dense) {}

  LayerFlats write() && {
    norm("norm1", LayerPart::norm1_weight, LayerPart::norm1_bias);
    norm("norm2", LayerPart::norm2_weight, LayerPart::norm2_bias);
    whole_parts();
    dense_.end_whole();
    attention();
    const FeedForward& f = layer_.ffn;
    if (f.is_moe() && f.shared_width > 0) mlp("shared", f.shared_width);
    if (!f.is_moe()) mlp("mlp", f.width);
    if (f.is_moe()) experts();
    return std::move(flats_);
  }

 private:
  Spot& part(LayerPart name) {
    return flats_.parts[static_cast<std::size_t>(name)];
  }
  std::int64_t hidden() const { return model_.hidden; }

  void norm(const char* name, LayerPart weight, LayerPart bias) {
    if (model_.norm_weight)
      part(weight) = dense_.vector(fmt::format("{}{}.weight", prefix_, name),
                                   hidden(), Initial::one);
    if (model_.norm == Norm::layer && model_.norm_weight && model_.norm_bias)
      part(bias) = dense_.vector(fmt::format("{}{}.bias", prefix_, name),
                                 hidden(), Initial::zero);
  }

  /// Biases added after tensor ranks are summed, and the router.
  void whole_parts() {
    const FeedForward& f = layer_.ffn;
    if (layer_.attention.output_bias)
      part(LayerPart::attended_bias) =
          dense_.vector(prefix_ + "attention.o.bias", hidden(), Initial::zero);
    if (f.bias && !f.is_moe())
      part(LayerPart::down_bias) =
          dense_.vector(prefix_ + "mlp.down.bias", hidden(), Initial::zero);
    if (f.is_moe())
      part(LayerPart::router) =
          dense_.rows(prefix_ + "router.weight", f.experts, hidden(), 0, 1,
                      Initial::normal);
  }

  Spot cut_rows(const std::string& name, std::int64_t rows) {
    return dense_.rows(prefix_ + name, rows, hidden(), position_.tensor,
                       strategy_.tensor, Initial::normal);
  }
  Spot cut_vector(const std::string& name, std::int64_t size) {
    return dense_.columns(prefix_ + name, 1, size, position_.tensor,
                          strategy_.tensor, Initial::zero);
  }

  void attention() {
    const Attention& a = layer_.attention;
    const std::int64_t query = std::int64_t{a.heads} * a.head_size;
    const std::int64_t key = std::int64_t{a.kv_heads} * a.head_size;
    Spot all = cut_rows("attention.q.weight", query);
    all = joined(all, cut_rows("attention.k.weight", key));
    part(LayerPart::projected) =
        joined(all, cut_rows("attention.v.weight", key));
    if (a.qkv_bias) {
      Spot bias = cut_vector("attention.q.bias", query);
      bias = joined_vector(bias, cut_vector("attention.k.bias", key));
      part(LayerPart::projected_bias) =
          joined_vector(bias, cut_vector("attention.v.bias", key));
    }
    part(LayerPart::attended) =
        dense_.columns(prefix_ + "attention.o.weight", hidden(), query,
                       position_.tensor, strategy_.tensor, Initial::residual);
  }

  void mlp(const std::string& name, std::int64_t width) {
    const FeedForward& f = layer_.ffn;
    Spot up{};
    if (f.gated) up = cut_rows(name + ".gate.weight", width);
    const Spot last = cut_rows(name + ".up.weight", width);
    part(LayerPart::up) = f.gated ? joined(up, last) : last;
    if (f.bias && !f.is_moe()) {
      Spot bias{};
      if (f.gated) bias = cut_vector(name + ".gate.bias", width);
      const Spot end = cut_vector(name + ".up.bias", width);
      part(LayerPart::up_bias) = f.gated ? joined_vector(bias, end) : end;
    }
    part(LayerPart::down) =
        dense_.columns(prefix_ + name + ".down.weight", hidden(), width,
                       position_.tensor, strategy_.tensor, Initial::residual);
  }

  void experts() {
    const FeedForward& f = layer_.ffn;
    flats_.experts.experts = true;
    FlatWriter writer(flats_.experts);
    const int local = static_cast<int>(divide_up(f.experts, strategy_.expert));
    for (int i = 0; i < local; ++i) {
      const std::string name =
          fmt::format("{}experts.{}.", prefix_, position_.expert * local + i);
      const auto whole = [&](const char* matrix, std::int64_t rows,
                             std::int64_t columns, Initial initial) {
        return writer.rows(name + matrix, rows, columns, 0, 1, initial);
      };
      Spot gate{};
      if (f.gated)
        gate = whole("gate.weight", f.expert_width, hidden(), Initial::normal);
      const Spot up =
          whole("up.weight", f.expert_width, hidden(), Initial::normal);
      const Spot down =
          whole("down.weight", hidden(), f.expert_width, Initial::residual);
      if (i > 0) continue;
      flats_.expert_up = f.gated ? joined(gate, up) : up;
      flats_.expert_down = down;
      flats_.expert_size = flats_.experts.size;
    }
  }

  const ModelSpec& model_;
  const Layer& layer_;
  std::string prefix_;
  const Strategy& strategy_;
  const Position& position_;
  LayerFlats flats_;
  FlatWriter dense_;
};

}  // namespace

bool is_table(const Parameter& parameter) {
  return parameter.name == "embedding.weight" ||
         parameter.name == "head.weight";
}

std::int64_t unpadded_rows(const ModelSpec& model, const Parameter& parameter) {
  return is_table(parameter) ? model.vocab : parameter.rows;
}

LayerFlats layer_flats(const ModelSpec& model, const Layer& layer, int number,
                       const Strategy& strategy, const Position& position) {
  return LayerWriter(model, layer, number, strategy, position).write();
}

Flat table_flat(const ModelSpec& model, const char* name,
                const Strategy& strategy, std::int64_t padded_vocab,
                const Position& position) {
  Flat flat;
  FlatWriter(flat).rows(name, padded_vocab, model.hidden, position.tensor,
                        strategy.tensor, Initial::normal);
  return flat;
}

Flat positions_flat(const ModelSpec& model) {
  Flat flat;
  FlatWriter writer(flat);
  if (model.positions == Positions::learned)
    writer.rows("positions.weight", model.position_rows, model.hidden, 0, 1,
                Initial::normal);
  writer.end_whole();
  return flat;
}

Flat final_norm_flat(const ModelSpec& model) {
  Flat flat;
  FlatWriter writer(flat);
  if (model.final_norm && model.norm_weight) {
    writer.vector("final_norm.weight", model.hidden, Initial::one);
    if (model.norm == Norm::layer && model.norm_bias)
      writer.vector("final_norm.bias", model.hidden, Initial::zero);
  }
  writer.end_whole();
  return flat;
}

}  // namespace ztplan
