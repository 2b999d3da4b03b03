// What ztplan's own executor keeps and needs for one layer and for the ends of
// a model, tensor by tensor. The executor lays its memory out as declared here
// and the ledger adds the same frames up: they cannot disagree.
//
// A frame is one block of memory, its tensors aligned to 64 bytes.
#pragma once

#include <array>

#include "base/units.h"
#include "spec/model.h"
#include "strategy/strategy.h"

namespace ztplan {

/// Sizes of one layer on one rank, for one micro-batch.
struct NativeSizes {
  std::int64_t sequences = 0;  // micro_batch
  std::int64_t tokens = 0;     // sequences * sequence / context
  std::int64_t stream = 0;     // those of the residual stream: fewer with sp
  std::int64_t hidden = 0;
  std::int64_t heads = 0, kv_heads = 0, head_size = 0;
  std::int64_t width = 0;  // of the dense MLP or of the shared experts
  bool gated = false;
  std::int64_t experts = 0, local_experts = 0, top_k = 0, expert_width = 0;
  std::int64_t chosen = 0;  // stream * top_k
  std::int64_t rows = 0;    // of the experts of this rank, at most
  std::int64_t number = 0;  // bytes of an activation
  std::int64_t query() const { return heads * head_size; }
  std::int64_t key() const { return kv_heads * head_size; }
  std::int64_t projected() const { return query() + 2 * key(); }
  std::int64_t up() const { return gated ? 2 * width : width; }
  std::int64_t expert_up() const {
    return gated ? 2 * expert_width : expert_width;
  }
};
NativeSizes native_sizes(const ModelSpec& model, const Layer& layer,
                         const Workload& workload, const Strategy& strategy);

/// Tensors of a block by name; an absent one has no bytes.
template <class Name>
class TensorFrame {
 public:
  void hold(Name name, std::int64_t bytes) {
    constexpr std::int64_t kAlignment = 64;
    const auto at = static_cast<std::size_t>(name);
    sizes_[at] = bytes;
    offsets_[at] = total_.value;
    total_.value += round_up(bytes, kAlignment);
  }
  bool has(Name name) const { return bytes(name) > 0; }
  std::int64_t bytes(Name name) const {
    return sizes_[static_cast<std::size_t>(name)];
  }
  std::int64_t offset(Name name) const {
    return offsets_[static_cast<std::size_t>(name)];
  }
  Bytes total() const { return total_; }

 private:
  static constexpr auto kCount = static_cast<std::size_t>(Name::count);
  std::array<std::int64_t, kCount> sizes_{}, offsets_{};
  Bytes total_;
};

/// Kept from a layer's forward to its backward. Rows are those of the stream
/// ([stream, ...]) or all tokens' ([tokens, ...]).
enum class Saved {
  input,       // [stream, hidden]
  mean1,       // fp32 [stream], LayerNorm alone
  rstd1,       // fp32 [stream]
  normed1,     // [stream, hidden], unless norms are recomputed
  projected,   // [tokens, query + 2 key]: queries, keys, values
  traded,      // the same, whole sequences of fewer heads (Ulysses)
  traded_out,  // [tokens, query]: what attention gave there
  attended,    // [tokens, query]
  log_sum,     // fp32 [tokens, heads], unless attention is recomputed
  scores,      // [tokens, heads, keys], eager and not recomputed
  middle,      // [stream, hidden]: after attention
  mean2,
  rstd2,
  normed2,
  up,            // [tokens, up]: before the activation
  activated,     // [tokens, width], unless it is recomputed
  router,        // fp32 [stream, experts]: probabilities
  chosen,        // int32 [stream, top_k]: experts
  weights,       // fp32 [stream, top_k]
  counts,        // int32 [expert ranks, experts]: rows each sends to each
  balance,       // fp32 [experts]: rows of the whole micro-batch
  source,        // int32 [chosen]: the token of each row sent, by expert
  slot,          // int32 [chosen]: its place among [stream, top_k]
  sent_weights,  // fp32 [chosen]: its weight
  arrival,       // int32 [rows]: places of received rows by local expert
  expert_in,     // [rows, hidden], by local expert
  expert_up,     // [rows, expert_up]
  expert_activated,
  returned,  // [chosen, hidden]: what experts gave, in the order sent
  // Where weights' gradients come later, those of the outputs of products whose
  // place would be gone. The others' take the place of what was saved.
  attended_gradient,  // [tokens, hidden]: of attention's output
  down_gradient,      // [tokens, hidden]: of the MLP's
  count
};
using SavedFrame = TensorFrame<Saved>;
SavedFrame saved_frame(const ModelSpec& model, const Layer& layer,
                       const Workload& workload, const Strategy& strategy);

/// Needed while a layer runs forward or backward.
enum class Scratch {
  wide,       // [tokens, hidden]: what tensor ranks gather and sum
  normed,     // [stream, hidden], where norms are recomputed
  activated,  // [tokens, width], where it is recomputed
  expert_activated,
  log_sum,             // where attention is recomputed
  scores,              // likewise
  attended,            // gradient of it, [tokens, query]
  projected,           // gradient of it, [tokens, query + 2 key]
  activated_gradient,  // [tokens, width], where weights' come later
  delta,               // fp32 [tokens, heads]
  query_sum,  // fp32 [tokens, query]: attention over several blocks of keys
  part,       // fp32 [tokens, query]
  part_sum,   // fp32 [tokens, heads]
  key_value,  // [tokens, 2 key]: the block that is here
  next_key_value,  // and the one that arrives
  key_value_gradient,
  next_key_value_gradient,
  packed,            // [tokens, query + 2 key]: on their way (Ulysses)
  unpacked,          // as they arrive
  traded_gradient,   // [tokens, query]
  logits,            // [stream, experts] of the router
  weight_gradients,  // fp32 [chosen], as sent
  slot_gradients,    // fp32 [stream, top_k]
  balance,           // fp32 [experts]: gradient of the balance loss
  rows_out,          // [chosen, hidden]: rows as they leave
  rows_in,           // [rows, hidden]: as they arrive
  expert_rows,       // [rows, hidden]: as experts give them
  count
};
using ScratchFrame = TensorFrame<Scratch>;
ScratchFrame forward_scratch(const ModelSpec& model, const Layer& layer,
                             const Workload& workload,
                             const Strategy& strategy);
ScratchFrame backward_scratch(const ModelSpec& model, const Layer& layer,
                              const Workload& workload,
                              const Strategy& strategy);

/// The loss of one micro-batch, from its forward to its backward, beside its
/// logits.
enum class HeadSaved {
  input,    // [stream, hidden]: of the final norm
  mean,     // fp32 [stream]
  rstd,     // fp32 [stream]
  normed,   // [stream, hidden]
  targets,  // int32 [tokens]
  maximum,  // fp32 [tokens]
  sum,      // fp32 [tokens]
  target_logit,
  count
};
using HeadFrame = TensorFrame<HeadSaved>;
HeadFrame head_frame(const ModelSpec& model, const Workload& workload,
                     const Strategy& strategy);
/// [tokens, vocab / tensor], of which the gradient takes the place.
Bytes logits_bytes(const ModelSpec& model, const Workload& workload,
                   const Strategy& strategy, std::int64_t padded_vocab);

/// Whole rows that embedding and head gather or sum: [tokens, hidden], where
/// the stream is cut.
Bytes end_scratch(const ModelSpec& model, const Workload& workload,
                  const Strategy& strategy);
/// Token ids of one micro-batch, int32 [tokens].
Bytes token_bytes(const Workload& workload, const Strategy& strategy);

}  // namespace ztplan
