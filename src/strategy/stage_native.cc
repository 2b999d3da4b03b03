// The ledger of ztplan's own executor: what src/exec allocates, byte for byte.
// Every unit (a layer, an end of the model) has flat buffers of its own, each
// padded to equal shards.
#include <algorithm>
#include <boost/container/static_vector.hpp>

#include "strategy/native_stage.h"
#include "strategy/stage_holdings.h"

namespace ztplan {
namespace {

constexpr const char* kSource = "ztplan, src/exec";
constexpr std::int64_t kSlots = 2;  // of gathered units, one used, one filled

/// Elements of flat buffers: padded, and this rank's shards of them.
struct FlatSum {
  std::int64_t whole = 0, shards = 0;
  void add(std::int64_t count, std::int64_t size, std::int64_t parts) {
    const std::int64_t one = padded_shard(size, parts);
    shards += count * one;
    whole += count * one * parts;
  }
};

struct NativeUnits {
  FlatSum all;
  std::int64_t experts = 0;        // padded elements of the experts' buffers
  std::int64_t largest = 0;        // padded elements of one unit
  std::int64_t largest_shard = 0;  // of one flat buffer
};

class UnitCounter {
 public:
  explicit UnitCounter(const Place& p)
      : p_(p),
        dense_(zero_group(p.strategy)),
        experts_(expert_zero_group(p.strategy)) {}

  NativeUnits count() && {
    for (const ChunkShape& chunk : p_.shape.chunks) {
      for (std::size_t kind = 0; kind < chunk.layers_of_kind.size(); ++kind)
        layers(chunk.layers_of_kind[kind], p_.sizes.shares[kind]);
      if (chunk.has_embedding) embedding();
      if (chunk.has_head) head();
    }
    return units_;
  }

 private:
  struct Flat {
    std::int64_t size, parts;
    bool borrowed;
    bool experts = false;
  };
  using Flats = boost::container::static_vector<Flat, 2>;

  void unit(std::int64_t count, const Flats& flats) {
    if (count == 0) return;
    FlatSum one;
    for (const Flat& flat : flats) {
      one.add(1, flat.size, flat.parts);
      units_.largest_shard =
          std::max(units_.largest_shard, padded_shard(flat.size, flat.parts));
      if (!flat.borrowed) units_.all.add(count, flat.size, flat.parts);
      if (flat.experts)
        units_.experts +=
            count * padded_shard(flat.size, flat.parts) * flat.parts;
    }
    units_.largest = std::max(units_.largest, one.whole);
  }
  void layers(std::int64_t count, const LayerShare& share) {
    unit(count, {{share.dense, dense_, false},
                 {share.experts, experts_, false, true}});
  }
  void embedding() {
    const EndShare& ends = p_.sizes.end_share;
    unit(1, {{ends.head, dense_, false},
             {ends.embedding - ends.head, dense_, false}});
  }
  /// A tied head borrows the embedding where one stage holds both.
  void head() {
    const EndShare& ends = p_.sizes.end_share;
    const bool borrows = p_.setting.model.tied && !ends_apart(p_.strategy);
    unit(1, {{ends.norm, dense_, false}, {ends.head, dense_, borrows}});
  }

  const Place& p_;
  std::int64_t dense_, experts_;
  NativeUnits units_;
};

void hold_for_step(Ledger& book, Term term, std::int64_t bytes,
                   const char* what) {
  hold(book, on_device(term, bytes, kWholeStep, what, kSource));
}

void hold_native_states(const Place& p, const NativeUnits& units,
                        Ledger& book) {
  const bool shards_weights = p.shards_parameters();
  const std::int64_t weights =
      shards_weights ? units.all.shards : units.all.whole;
  const std::int64_t gradients =
      p.shards_gradients() ? units.all.shards : units.all.whole;
  const std::int64_t gradient = activation_bytes(p.setting.workload.gradient);
  if (!p.parameters_leave())
    hold_for_step(book, Term::parameters, p.number() * weights, "weights");
  hold_for_step(book, Term::gradients, gradient * gradients, "gradients");
  const std::int64_t states =
      p.number() == kFp32Bytes ? 2 * kFp32Bytes : 3 * kFp32Bytes;
  if (!p.optimizer_leaves())
    hold_for_step(book, Term::optimizer, states * units.all.shards,
                  "optimizer states");
  if (shards_weights)
    hold_for_step(book, Term::gathered, kSlots * p.number() * units.largest,
                  "gathered weights of two units");
  if (p.shards_gradients())
    hold_for_step(book, Term::gathered, kSlots * gradient * units.largest,
                  "whole gradients of two units");
}

/// Gradients arrive on the host whole, weights leave it whole or by slices, and
/// a drive's states pass through two slices.
void hold_native_offload(const Place& p, const NativeUnits& units,
                         Ledger& book) {
  if (!p.optimizer_leaves()) return;
  const std::int64_t shards = units.all.shards;
  const std::int64_t slice = offload_slice(shards);
  const Offload& offload = p.strategy.offload;
  constexpr std::int64_t kStates = 3 * kFp32Bytes;
  constexpr std::int64_t kPage = 4096;
  if (offload.optimizer == OffloadTier::cpu) {
    hold(book, on_host(Term::optimizer, kStates * shards, "optimizer states",
                       kSource));
  } else {
    hold(book,
         on_nvme(Term::optimizer, kStates * slice * divide_up(shards, slice),
                 "optimizer states", kSource));
    hold(book, on_host(Term::buffers, kSlots * kStates * slice,
                       "slices of optimizer states", kSource));
  }
  hold(book, on_host(Term::gradients, kFp32Bytes * shards,
                     "gradients for the optimizer", kSource));
  if (offload.parameters != OffloadTier::nvme)
    return hold(book,
                on_host(p.parameters_leave() ? Term::parameters : Term::buffers,
                        p.number() * shards, "weights", kSource));
  hold(book,
       on_nvme(Term::parameters, p.number() * slice * divide_up(shards, slice),
               "weights", kSource));
  hold(book, on_host(Term::buffers, kSlots * p.number() * slice,
                     "slices of weights", kSource));
  hold(book,
       on_host(
           Term::buffers,
           kSlots * (round_up(p.number() * units.largest_shard, kPage) + kPage),
           "weights from the drive", kSource));
}

void hold_native_buffers(const Place& p, Ledger& book) {
  hold_for_step(book, Term::buffers, p.sizes.workspace.value,
                "workspace of a layer");
  hold_for_step(book, Term::buffers, 2 * p.sizes.boundary.value,
                "rows and gradient between layers");
  hold_for_step(book, Term::buffers,
                native_positions(p.setting.workload, p.strategy).value,
                "positions of tokens");
  hold_for_step(book, Term::buffers, kNativeTotals.value,
                "sums of losses and squares");
}

/// What was not sent yet, and room for what all ranks send.
void hold_native_compression(const Place& p, const NativeUnits& units,
                             Ledger& book) {
  if (p.strategy.tuning.compression != Compression::topk) return;
  hold_for_step(book, Term::buffers, kFp32Bytes * units.all.whole,
                "error feedback");
  hold_for_step(
      book, Term::buffers,
      native_topk(p.strategy, units.all.whole - units.experts, units.experts)
          .value,
      "largest gradients of all ranks");
}

}  // namespace

void hold_native(const Place& p, Ledger& book) {
  const NativeUnits units = UnitCounter(p).count();
  hold_native_states(p, units, book);
  hold_native_offload(p, units, book);
  hold_native_buffers(p, book);
  hold_native_compression(p, units, book);
}

}  // namespace ztplan
