#include "exec/stage_states.h"

#include <algorithm>

#include "strategy/native_stage.h"

namespace ztplan {

using namespace kernels;  // NOLINT: their names are this file's vocabulary

namespace {

Array allocate(Device& device, Tier tier, Term term, std::int64_t size,
               Precision dtype) {
  if (size == 0) return {};
  return {device.allocate(tier, term, Bytes{size * bytes_of(dtype)}), size,
          dtype};
}

}  // namespace

StageStates::StageStates(RankContext& context, const StageUnits& units,
                         const Holders& dense, const Holders& experts)
    : context_(context),
      units_(units),
      dense_(dense),
      experts_(experts),
      largest_(context, units),
      optimizer_(context.device, context.strategy.offload.optimizer,
                 units.shards,
                 context.dtype() != Precision::fp32 || optimizer_leaves(),
                 context.offload_folder) {
  Device& device = context.device;
  const Workload& w = context.workload;
  const auto on_device = [&](Term term, std::int64_t size, Precision dtype) {
    return allocate(device, Tier::device, term, size, dtype);
  };
  if (!weights_leave())
    weights_ = on_device(Term::parameters,
                         shards_weights() ? units.shards : units.whole,
                         context.dtype());
  gradients_ =
      on_device(Term::gradients,
                shards_gradients() ? units.shards : units.whole, w.gradient);
  for (Array& slot : gathered_)
    if (shards_weights())
      slot = on_device(Term::gathered, units.largest, context.dtype());
  for (Array& slot : unit_gradients_)
    if (shards_gradients())
      slot = on_device(Term::gathered, units.largest, w.gradient);
  if (optimizer_leaves()) lay_host();
  if (!weights_.empty()) device.launch(Lane::compute, Fill{weights_, 0});
}

/// Host memory of an offloaded optimizer.
void StageStates::lay_host() {
  Device& device = context_.device;
  const auto on_host = [&](Term term, std::int64_t size, Precision dtype) {
    return allocate(device, Tier::host, term, size, dtype);
  };
  host_gradients_ = on_host(Term::gradients, units_.shards, Precision::fp32);
  const std::int64_t slice = offload_slice(units_.shards);
  if (offload().parameters != OffloadTier::nvme) {
    host_weights_ = on_host(weights_leave() ? Term::parameters : Term::buffers,
                            units_.shards, context_.dtype());
    return;
  }
  const int width = bytes_of(context_.dtype());
  host_weights_ = on_host(Term::buffers, kUnitSlots * slice, context_.dtype());
  for (Array& slot : staged_weights_)
    slot = on_host(
        Term::buffers,
        (round_up(width * largest_shard(), kDriveAlignment) + kDriveAlignment) /
            width,
        context_.dtype());
  weights_drive_.emplace(context_.offload_folder,
                         width * slice * divide_up(units_.shards, slice));
}

std::int64_t StageStates::largest_shard() const {
  std::int64_t most = 0;
  for (const auto& chunk : units_.chunks)
    for (const Unit& unit : chunk)
      for (const FlatState& flat : unit.flats)
        most = std::max(most, flat.shard);
  return most;
}

Array StageStates::weights_of(const FlatState& flat, int slot) const {
  if (shards_weights())
    return slice(gathered_[static_cast<std::size_t>(slot)], flat.unit_at,
                 flat.padded);
  return slice(weights_, flat.whole_at, flat.padded);
}

Array StageStates::gradients_of(const FlatState& flat, int slot) const {
  if (shards_gradients())
    return slice(unit_gradients_[static_cast<std::size_t>(slot)], flat.unit_at,
                 flat.padded);
  return slice(gradients_, flat.whole_at, flat.padded);
}

Array StageStates::own(const Array& whole, const FlatState& flat) const {
  return slice(whole, holders(flat).shards.rank() * flat.shard, flat.shard);
}

UnitArrays StageStates::layer_weights(const Unit& unit, int slot) const {
  UnitArrays arrays{weights_of(unit.flats.front(), slot), {}};
  if (unit.flats.size() > 1)
    arrays.experts = weights_of(unit.flats.back(), slot);
  return arrays;
}

UnitArrays StageStates::layer_gradients(const Unit& unit, int slot) const {
  UnitArrays arrays{gradients_of(unit.flats.front(), slot), {}};
  if (unit.flats.size() > 1)
    arrays.experts = gradients_of(unit.flats.back(), slot);
  return arrays;
}

EndArrays StageStates::ends_of(const Unit& unit, int slot,
                               bool gradients) const {
  const std::int64_t hidden = context_.model.hidden;
  EndArrays arrays;
  for (const FlatState& flat : unit.flats) {
    const Array whole =
        gradients ? gradients_of(flat, slot) : weights_of(flat, slot);
    const Array used = slice(whole, 0, flat.flat.size);
    const std::string& name = flat.flat.parameters.front().name;
    if (name == "positions.weight") {
      arrays.positions = used;
    } else if (name == "final_norm.weight") {
      arrays.norm = slice(used, 0, hidden);
      if (used.size > hidden)
        arrays.norm_bias = slice(used, hidden, used.size - hidden);
    } else {
      arrays.table = used;
    }
  }
  return arrays;
}

EndArrays StageStates::end_weights(const Unit& unit, int slot) const {
  return ends_of(unit, slot, false);
}
EndArrays StageStates::end_gradients(const Unit& unit, int slot) const {
  return ends_of(unit, slot, true);
}

void StageStates::gather(Lane lane, const Unit& unit, int slot) const {
  for (const FlatState& flat : unit.flats) {
    const Array whole = weights_of(flat, slot);
    // What was fetched is in its place already.
    const Array shard = weights_leave()
                            ? own(whole, flat)
                            : slice(weights_, flat.shard_at, flat.shard);
    const Peers& shards = holders(flat).shards;
    if (shards.size() == 1 && weights_leave()) continue;
    if (shards.size() == 1)
      context_.device.launch(lane, Copy{as_matrix(shard, shard.size),
                                        as_matrix(whole, whole.size)});
    else
      shards.all_gather(lane, shard, whole);
  }
}

void StageStates::zero_gradients(Lane lane) const {
  context_.device.launch(lane, Fill{gradients_, 0});
}

void StageStates::open_gradients(Lane lane, const Unit& unit, int slot) const {
  if (!shards_gradients()) return;
  context_.device.launch(
      lane, Fill{slice(unit_gradients_[static_cast<std::size_t>(slot)], 0,
                       unit.padded()),
                 0});
}

void StageStates::sum_over_tensor(const Unit& unit, int slot) const {
  if (!context_.cuts_stream()) return;
  for (const FlatState& flat : unit.flats)
    context_.tensor.all_reduce(
        Lane::compute, slice(gradients_of(flat, slot), 0, flat.flat.whole),
        Reduction::sum);
}

void StageStates::reduce(Lane lane, const Unit& unit, int slot,
                         bool last) const {
  for (const FlatState& flat : unit.flats) {
    if (flat.borrowed && !shards_gradients()) continue;  // with its lender
    const Array whole = gradients_of(flat, slot);
    const Array shard = own(whole, flat);
    holders(flat).shards.reduce_scatter(lane, whole, shard);
    Array kept = shard;
    if (shards_gradients()) {
      kept = slice(gradients_, flat.shard_at, flat.shard);
      context_.device.launch(lane, Copy{as_matrix(shard, shard.size),
                                        as_matrix(kept, kept.size), true});
    }
    if (last && !(flat.borrowed && unit.kind == UnitKind::head))
      holders(flat).replicas.all_reduce(lane, kept, Reduction::sum);
  }
}

void StageStates::reduce_whole(Lane lane, std::span<const Unit> units) const {
  for (const bool experts : {false, true}) {
    std::int64_t from = -1, until = -1;
    for (const Unit& unit : units)
      for (const FlatState& flat : unit.flats) {
        if (flat.flat.experts != experts || flat.borrowed) continue;
        if (from < 0) from = flat.whole_at;
        until = flat.whole_at + flat.padded;
      }
    if (from < 0) continue;
    const Peers& peers = (experts ? experts_ : dense_).whole;
    const Array sum = slice(gradients_, from, until - from);
    if (context_.strategy.tuning.compression == Compression::topk)
      largest_.sum(lane, peers, from, sum);
    else
      peers.all_reduce(lane, sum, Reduction::sum);
  }
}

template <class Visit>
void StageStates::for_each_flat(const Visit& visit) const {
  for (const auto& chunk : units_.chunks)
    for (const Unit& unit : chunk)
      for (const FlatState& flat : unit.flats)
        if (!flat.borrowed) visit(unit, flat);
}

StageStates::Shard StageStates::shard_of(const FlatState& flat) const {
  const auto part = [&](const Array& all, bool sharded) {
    return sharded ? slice(all, flat.shard_at, flat.shard)
                   : own(slice(all, flat.whole_at, flat.padded), flat);
  };
  Shard shard;
  if (!weights_leave()) shard.weights = part(weights_, shards_weights());
  shard.gradients = part(gradients_, shards_gradients());
  shard.rank = holders(flat).shards.rank();
  return shard;
}

/// Requires states on the device.
AdamArrays StageStates::adam_arrays(const FlatState& flat) const {
  const auto states = [&](StateKind kind) {
    return slice(optimizer_.whole(kind), flat.shard_at, flat.shard);
  };
  return {optimizer_.has_masters() ? states(StateKind::master)
                                   : shard_of(flat).weights,
          states(StateKind::first_moment), states(StateKind::second_moment)};
}

void StageStates::square_sum(Lane lane, bool first_stage, double* sum) const {
  const bool tied_copy = context_.model.tied && ends_apart(context_.strategy);
  for_each_flat([&](const Unit& unit, const FlatState& flat) {
    const bool is_copy = unit.kind == UnitKind::head && tied_copy &&
                         !first_stage && flat.flat.whole == 0;
    if (is_copy || holders(flat).replicas.rank() > 0) return;
    const Shard shard = shard_of(flat);
    const std::int64_t begin = shard.rank * flat.shard;
    for (const OwnedRange& range : owned_ranges(flat, shard.rank)) {
      if (range.whole && context_.position.tensor > 0) continue;
      context_.device.launch(
          lane,
          SquareSum{slice(shard.gradients, range.from - begin, range.size),
                    sum});
    }
  });
}

AdamW adam_of(const StepNumbers& numbers, bool decays) {
  AdamW adam;
  adam.learning_rate = numbers.learning_rate;
  adam.beta1 = numbers.beta1;
  adam.beta2 = numbers.beta2;
  adam.epsilon = numbers.epsilon;
  adam.weight_decay = decays ? numbers.weight_decay : 0;
  adam.factor = numbers.factor;
  adam.step = numbers.step;
  return adam;
}

void StageStates::step(Lane lane, const StepNumbers& numbers) const {
  for_each_flat([&](const Unit&, const FlatState& flat) {
    const Shard shard = shard_of(flat);
    const AdamArrays states = adam_arrays(flat);
    const std::int64_t begin = shard.rank * flat.shard;
    for (const OwnedRange& range : owned_ranges(flat, shard.rank)) {
      const auto part = [&](const Array& all) {
        return slice(all, range.from - begin, range.size);
      };
      AdamW adam = adam_of(numbers, range.decays);
      adam.master = part(states.masters);
      adam.first_moment = part(states.first_moment);
      adam.second_moment = part(states.second_moment);
      adam.gradient = part(shard.gradients);
      adam.weight = part(shard.weights);
      context_.device.launch(lane, adam);
    }
  });
}

void StageStates::gather_updates(Lane lane) const {
  if (context_.strategy.zero == 0 || shards_weights()) return;
  for_each_flat([&](const Unit&, const FlatState& flat) {
    const Array whole = weights_of(flat, 0);
    holders(flat).shards.all_gather(lane, own(whole, flat), whole);
  });
}

std::vector<float> StageStates::read_states(const FlatState& flat,
                                            StateKind kind) {
  std::vector<float> values(static_cast<std::size_t>(flat.shard));
  if (kind != StateKind::master || optimizer_.has_masters()) {
    optimizer_.read(kind, flat.shard_at, values);
    return values;
  }
  const Array weights = shard_of(flat).weights;
  context_.device.copy(Lane::compute,
                       reinterpret_cast<std::byte*>(values.data()),
                       weights.data, bytes_in(weights));
  context_.device.synchronize();
  return values;
}

void StageStates::write_states(const FlatState& flat, StateKind kind,
                               std::span<const float> values) {
  if (kind != StateKind::master || optimizer_.has_masters())
    return optimizer_.write(kind, flat.shard_at, values);
  const Array weights = shard_of(flat).weights;
  context_.device.copy(Lane::compute, weights.data,
                       reinterpret_cast<const std::byte*>(values.data()),
                       bytes_in(weights));
  context_.device.synchronize();
}

void StageStates::settle_weights() {
  if (!optimizer_.has_masters()) return;
  if (optimizer_leaves()) {
    for (int i = 0; i < optimizer_.slices(); ++i) {
      load_slice(Lane::nvme, i);
      context_.device.synchronize();
      const Array master = optimizer_.slice(i)[StateKind::master];
      run_on_cpu(Copy{as_matrix(master, master.size),
                      as_matrix(host_weights(i), master.size)});
      store_slice(Lane::nvme, i);
      if (!weights_leave()) return_weights(Lane::to_device, i);
      context_.device.synchronize();
    }
    return;
  }
  for_each_flat([&](const Unit&, const FlatState& flat) {
    context_.device.launch(
        Lane::compute, Copy{as_matrix(adam_arrays(flat).masters, flat.shard),
                            as_matrix(shard_of(flat).weights, flat.shard)});
  });
}

}  // namespace ztplan
