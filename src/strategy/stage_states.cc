#include <algorithm>

#include "strategy/stage_holdings.h"

namespace ztplan {
namespace {

// Adam in mixed precision: fp32 master, first and second moment. In fp32 the
// weights are their own master. Source: ZeRO, arXiv 1910.02054, section 3.1.
constexpr std::int64_t kMoments = 2 * kFp32Bytes;
constexpr std::int64_t kMasterAndMoments = kFp32Bytes + kMoments;

// Weights in fp8 and their transposes, beside the 16-bit ones. Source:
// TransformerEngine, module/base.py (weight workspaces, kept over a step).
constexpr std::int64_t kFp8Copies = 2;

bool gathers(const Place& p) {
  return p.shards_parameters() || p.parameters_leave();
}

/// One state of dense and of expert parameters, whole or this device's shard.
void hold_state(const Place& p, Ledger& book, Term term, std::int64_t each,
                bool is_sharded, const char* dense, const char* experts) {
  const StageShare& share = p.share;
  hold(book, on_device(term, each * (is_sharded ? p.dense_shard : share.dense),
                       kWholeStep, dense, kZeroSource));
  hold(book,
       on_device(term, each * (is_sharded ? p.expert_shard : share.experts),
                 kWholeStep, experts, kZeroSource));
}

void hold_parameters(const Place& p, Ledger& book) {
  if (p.parameters_leave()) return;
  hold_state(p, book, Term::parameters, p.bytes.parameter,
             p.shards_parameters(), "weights", "expert weights");
}

void hold_fp8_copies(const Place& p, Ledger& book) {
  if (p.setting.workload.precision != Precision::fp8) return;
  const std::int64_t copied =
      gathers(p) ? p.share.largest_layer : p.share.total() - p.share.ends;
  hold(book, on_device(Term::buffers, kFp8Copies * copied, kWholeStep,
                       "fp8 weights and their transposes",
                       "TransformerEngine, pytorch/module/base.py"));
}

/// A gradient as it is computed, where it is added to an fp32 one and kept;
/// and a copy of all of them while they are reduced.
void hold_narrow_gradients(const Place& p, Ledger& book) {
  const bool kept = p.keeps.narrow_gradients && !p.shards_gradients() &&
                    p.bytes.gradient > p.number();
  if (!kept) return;
  const std::int64_t bytes = p.number() * p.share.total();
  hold(book, on_device(Term::gradients, bytes, kWholeStep, "16-bit gradients",
                       p.keeps.source));
  hold(book, on_device(Term::buffers, bytes, {Phase::reduce, Phase::reduce},
                       "16-bit copy that is reduced", p.keeps.source));
}

void hold_gradients(const Place& p, Ledger& book) {
  const bool away = p.shards_gradients() && p.optimizer_leaves() &&
                    p.keeps.gradients_leave_device;
  if (away) return;
  hold_state(p, book, Term::gradients, p.bytes.gradient, p.shards_gradients(),
             "gradients", "expert gradients");
  hold_narrow_gradients(p, book);
}

/// Adam reads fp32 gradients: 16-bit ones are copied when it runs.
void hold_step_gradients(const Place& p, Ledger& book) {
  if (p.bytes.gradient == kFp32Bytes) return;
  const std::int64_t at_once =
      p.shards_parameters() ? std::min(p.owned(), kSubGroup) : p.owned();
  hold(book, on_device(Term::buffers, kFp32Bytes * at_once,
                       {Phase::step, Phase::step},
                       "fp32 gradients of the optimizer step",
                       "Megatron-LM, core/optimizer/distrib_optimizer.py"));
}

void hold_optimizer(const Place& p, Ledger& book) {
  if (p.optimizer_leaves()) return;
  constexpr bool kSharded = true;  // by a group of one without ZeRO
  hold_state(p, book, Term::optimizer, p.bytes.optimizer, kSharded,
             "optimizer states", "expert optimizer states");
  hold_step_gradients(p, book);
}

/// The whole stage, from its first forward to its last backward.
void hold_gathered_stage(const Place& p, Ledger& book) {
  hold(book, on_device(Term::gathered, p.number() * p.share.total(), kPasses,
                       "gathered weights of the stage", p.keeps.source));
  hold(book, on_device(Term::gathered, kFp32Bytes * p.share.total(),
                       {Phase::loss, Phase::reduce},
                       "whole gradients of the stage", p.keeps.source));
}

/// One layer at work, the next on its way, and the larger end.
void hold_gathered_layers(const Place& p, Ledger& book) {
  hold(book,
       on_device(Term::gathered, 2 * p.number() * p.share.largest_layer,
                 kPasses, "gathered weights of two layers", p.keeps.source));
  hold(book,
       on_device(Term::gathered, p.number() * p.share.largest_end, kPasses,
                 "gathered embedding or output matrix", p.keeps.source));
}

/// Gradients of the piece being differentiated, before they are sharded: as
/// computed, and as the input of the reduction where no bucket takes them.
void hold_whole_gradients(const Place& p, Ledger& book) {
  const std::int64_t reduced =
      p.keeps.buckets_sharded == 0 ? p.bytes.gradient : 0;
  const std::int64_t each = p.number() + reduced;
  hold(book, on_device(Term::gathered, each * p.share.largest_layer,
                       {Phase::backward, Phase::backward},
                       "gradient of one whole layer", p.keeps.source));
  if (!p.shape.has_head()) return;
  hold(book, on_device(Term::gathered, each * p.share.largest_end,
                       {Phase::loss, Phase::loss},
                       "gradient of the output matrix", p.keeps.source));
}

}  // namespace

StateBytes state_bytes(const Workload& workload, const EngineMemory& keeps,
                       const Strategy& strategy) {
  const std::int64_t number = activation_bytes(workload.precision);
  const bool is_fp32 =
      number == kFp32Bytes || (keeps.shards_are_master && strategy.zero >= 3);
  if (is_fp32) return {kFp32Bytes, kFp32Bytes, kMoments};
  return {number, activation_bytes(workload.gradient), kMasterAndMoments};
}

void hold_states(const Place& p, Ledger& book) {
  hold_parameters(p, book);
  hold_fp8_copies(p, book);
  hold_gradients(p, book);
  hold_optimizer(p, book);
}

void hold_gathered(const Place& p, Ledger& book) {
  const bool whole_stage = p.keeps.keeps_stage_gathered &&
                           p.strategy.pipeline > 1 && p.shards_parameters();
  if (whole_stage) return hold_gathered_stage(p, book);
  if (gathers(p)) hold_gathered_layers(p, book);
  if (p.shards_gradients()) hold_whole_gradients(p, book);
}

}  // namespace ztplan
