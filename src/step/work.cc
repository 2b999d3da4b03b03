#include "step/work.h"

#include <algorithm>
#include <array>

namespace ztplan {
namespace {

constexpr double kMultiplyAdd = 2;  // operations, as vendors count them

Flops flops_of(const Matmul& work) {
  return {kMultiplyAdd * static_cast<double>(work.m) *
          static_cast<double>(work.n) * static_cast<double>(work.k) *
          static_cast<double>(work.batch)};
}

/// Products over qk_size and over v_size that one score takes part in:
/// forward S = Q K^T and O = P V; backward dV, dP, dQ and dK; a flash kernel
/// computes S again in its backward. Source: arXiv 2205.14135, algorithm 4.
struct Products {
  int over_qk, over_v;
};

Products products_of(const AttentionWork& work) {
  if (work.direction == Direction::forward) return {1, 1};
  if (work.kernel != AttentionKernel::eager) return {3, 2};
  return {2, 2};
}

Flops flops_of(const AttentionWork& work) {
  const auto [over_qk, over_v] = products_of(work);
  const double per_score =
      kMultiplyAdd * (over_qk * work.qk_size + over_v * work.v_size);
  return {per_score * computed_scores(work)};
}

Flops flops_of(const Stream&) { return {}; }
Flops flops_of(const Collective&) { return {}; }
Flops flops_of(const Transfer&) { return {}; }
Flops flops_of(const HostAdam&) { return {}; }

struct OperationFacts {
  std::string_view name;
  int bytes;
};
// Source: the tensors each operation touches; the same counts as in "Data
// Movement Is All You Need" (arXiv 2007.00072), fused column. Of the loss on
// fp32 logits around its product: the cast, maximum, exponentials, their sum,
// the gradient, the cast back (operators of Megatron-LM core/tensor_parallel/
// cross_entropy.py).
constexpr std::array<OperationFacts, kOperations> kOperationFacts{{
    {"copy", 4},                 // in, out
    {"norm", 4},                 // x in, y out
    {"norm_backward", 8},        // x, dy, residual gradient in; dx out
    {"residual", 6},             // x, residual in; sum out
    {"dropout", 5},              // dy in and out, the mask
    {"rotary", 4},               // in, out
    {"activation", 4},           // in, out
    {"activation_backward", 6},  // in, dy; dx
    {"gated", 6},                // gate, up; out
    {"gated_backward", 10},      // gate, up, dy; both gradients
    {"dispatch", 4},             // row in, row out
    {"embedding", 4},            // row in, row out
    {"embedding_backward", 6},   // gradient in, touched row in and out
    {"loss", 12},
    {"loss_backward", 8},
    {"accumulate", 0},
    {"square_sum", 0},
    {"optimizer", 0},
}};
const OperationFacts& facts(Operation operation) {
  return kOperationFacts.at(static_cast<std::size_t>(operation));
}

}  // namespace

std::string_view to_text(Operation operation) { return facts(operation).name; }
int fused_bytes(Operation operation) { return facts(operation).bytes; }

double computed_scores(const AttentionWork& work) {
  const double queries = static_cast<double>(work.queries);
  const double keys = static_cast<double>(work.keys);
  const double rows = static_cast<double>(work.sequences) * work.heads;
  if (work.kernel == AttentionKernel::eager) return rows * queries * keys;
  const double seen =
      work.window > 0 ? std::min<double>(work.window, keys) : keys;
  // A causal query sees `seen` keys, less the corner where it starts.
  const double masked =
      work.causal && work.skips_mask ? seen * seen / (2 * keys) : 0;
  return rows * queries * (seen - masked);
}

Flops flops(const Work& work) {
  return std::visit([](const auto& kind) { return flops_of(kind); }, work);
}

Bytes sent_bytes(const Collective& collective) {
  const Bytes whole = collective.bytes;
  const int ranks = collective.group.size;
  if (ranks <= 1) return {};
  const Bytes others = whole - whole / ranks;  // (n - 1) / n, rounded up
  switch (collective.op) {
    case CollectiveOp::all_reduce:
      return others + others;
    case CollectiveOp::all_gather:
    case CollectiveOp::reduce_scatter:
    case CollectiveOp::all_to_all:
      return others;
    case CollectiveOp::send_receive:
      return whole;
  }
  return {};
}

}  // namespace ztplan
