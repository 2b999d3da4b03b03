// The kernels that a training step is made of, as values: what each reads,
// writes and computes. A device launches them in order on a lane; the CPU's are
// in calibrate/kernels/*.cc, each beside its gradient.
//
// Arithmetic is fp32 whatever the dtype of the arrays: 16-bit elements are
// widened when they are read and rounded to nearest even when they are written.
// Sums run in a fixed order, so a kernel gives the same bits every time. No
// kernel allocates device memory, none reads what it was not given.
#pragma once

#include <variant>

#include "calibrate/kernels/array.h"

namespace ztplan {
namespace kernels {

/// c[m, n] = op(a) op(b), or c += when `accumulate`. op(a) is a[m, k] or, with
/// `transpose_a`, a[k, m] transposed; likewise b[k, n] or b[n, k].
struct Product {
  Matrix a, b, c;
  bool transpose_a = false, transpose_b = false, accumulate = false;
};

/// rows[i, :] += row.
struct AddRow {
  Matrix rows;
  Array row;  // [columns]
};
/// sum[:] += the sum over i of rows[i, :], in the order of i.
struct SumRows {
  Matrix rows;
  Array sum;  // [columns]
};

/// out[i, :] = table[ids[i] - first, :], 0 where that row is not in `table`; or
/// out += when `accumulate`. A negative id names no row.
struct Embed {
  Indices ids;
  std::int64_t first = 0;
  Matrix table, out;
  bool accumulate = false;
};
/// table_gradient[ids[i] - first, :] += out_gradient[i, :], in the order of i.
struct EmbedBackward {
  Indices ids;
  std::int64_t first = 0;
  Matrix out_gradient, table_gradient;
};

/// LayerNorm (arXiv 1607.06450) or RMSNorm (arXiv 1910.07467) of each row:
/// out = (in - mean) * rstd * weight + bias. `mean` and `bias` are empty for
/// RMSNorm; `weight` too where a model has none. Keeps mean and rstd, fp32.
struct NormForward {
  Matrix in, out;
  Array weight, bias;  // [columns] or empty
  Array mean, rstd;    // [rows] fp32; mean empty: RMSNorm
  float epsilon = 1e-5F;
};
/// in_gradient = (or += when `accumulate`) the gradient of `in`; weight and
/// bias gradients are added to.
struct NormBackward {
  Matrix in, out_gradient, in_gradient;
  Array weight, mean, rstd;
  Array weight_gradient, bias_gradient;  // empty where the model has none
  bool accumulate = false;
};

/// out = a + b. `out` may be either.
struct Add {
  Array a, b, out;
};
/// out = a * factor, converted to the dtype of `out`; `out` may be `a`.
struct Scale {
  Array in, out;
  float factor = 1;
};
struct Fill {
  Array out;
  float value = 0;
};
/// to = from, or to += from when `accumulate`, converted.
struct Copy {
  Matrix from, to;
  bool accumulate = false;
};

/// Rotary embedding (arXiv 2104.09864) in place: of each head of
/// x[token, heads * head_size] the halves (x1, x2) turn by position * base^(-2i
/// / head_size), as Hugging Face's rotate_half. `inverse` turns back.
struct Rotate {
  Matrix x;
  Indices positions;  // [rows]
  std::int64_t head_size = 0;
  double base = 10000;
  bool inverse = false;
};

/// Sizes of attention: `sequences` of `queries` and `keys` tokens each; rows of
/// q, k, v are tokens, sequence after sequence, their columns heads side by
/// side. Query head h reads key/value head h * kv_heads / heads. A query sees a
/// key when it is not causal, or key position <= query position and, with a
/// window, query position - key position < window.
struct AttentionShape {
  std::int64_t sequences = 0, queries = 0, keys = 0;
  std::int64_t heads = 0, kv_heads = 0, qk_size = 0, v_size = 0;
  bool causal = true;
  std::int64_t window = 0;                 // 0: all keys
  Indices query_positions, key_positions;  // [queries], [keys]: same for each
                                           // sequence
  float scale = 1;                         // of scores
};
/// out = softmax(scale q k^T) v. `log_sum` [sequences, heads, queries] fp32
/// keeps the logarithm of each row's sum of exponentials: -infinity, with out
/// 0, where a query sees no key. Tiled: never holds queries x keys, unless
/// `probabilities` [sequences, heads, queries, keys] is given, which an eager
/// attention keeps.
struct AttentionForward {
  AttentionShape shape;
  Matrix q, k, v, out;
  Array log_sum;
  Array probabilities;  // or empty
};
/// Adds another block of keys to a finished one (arXiv 2310.01889): `out` and
/// `log_sum` become those of both blocks together.
struct MergeAttention {
  Matrix out, part;
  Array log_sum, part_log_sum;  // [sequences, heads, queries]
  std::int64_t heads = 0, sequences = 0;
};
/// delta[sequence, head, query] = the sum over v_size of out * out_gradient.
struct AttentionDelta {
  Matrix out, out_gradient;
  Array delta;  // fp32, as log_sum
  std::int64_t heads = 0, sequences = 0;
};
/// q_gradient, k_gradient and v_gradient are added to when `accumulate`, else
/// written. `log_sum` is that over all keys, in whichever blocks they came;
/// with `probabilities` they are read instead of being computed again.
struct AttentionBackward {
  AttentionShape shape;
  Matrix q, k, v, out_gradient;
  Array log_sum, delta;
  Array probabilities;  // or empty
  Matrix q_gradient, k_gradient, v_gradient;
  bool accumulate = false;
};

/// out[rows, width] = f(in), or f(gate) * up where gated and in[rows, 2 width]
/// holds gate, then up, side by side. GELU is the tanh form (arXiv 1606.08415).
struct ActivationForward {
  Matrix in, out;
  Activation kind = Activation::gelu;
  bool gated = false;
};
/// in_gradient may be `in`.
struct ActivationBackward {
  Matrix in, out_gradient, in_gradient;
  Activation kind = Activation::gelu;
  bool gated = false;
};

/// Cross-entropy over a vocabulary that may be cut by columns (Megatron-LM,
/// arXiv 1909.08053): logits[tokens, columns] are words first, first + 1, ...
/// Words from `vocab` on are padding and take no part. Between the steps ranks
/// take the maximum of `maximum` and the sum of `sum` and `target_logit`.
struct LossMaximum {
  Matrix logits;
  std::int64_t first = 0, vocab = 0;
  Array maximum;  // [tokens] fp32
};
struct LossSum {
  Matrix logits;
  std::int64_t first = 0, vocab = 0;
  Indices targets;  // negative: the token takes no part in the loss
  Array maximum, sum, target_logit;  // [tokens] fp32
};
/// total += the sum over tokens of log(sum) + maximum - target_logit, in order.
struct LossTotal {
  Indices targets;
  Array maximum, sum, target_logit;
  double* total = nullptr;
};
/// gradient = (softmax - one_hot(target)) * scale; may be `logits`. 0 for
/// padding and for tokens without a target.
struct LossGradient {
  Matrix logits, gradient;
  std::int64_t first = 0, vocab = 0;
  Indices targets;
  Array maximum, sum;
  float scale = 1;
};

/// AdamW (arXiv 1711.05101) over fp32 masters; `weight` gets the rounded copy
/// and may be the master itself. The gradient is multiplied by `factor` first
/// (loss scale, clipping).
struct AdamW {
  Array master, first_moment, second_moment, gradient, weight;
  float learning_rate = 0, beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F;
  float weight_decay = 0;
  float factor = 1;
  std::int64_t step = 1;  // from 1 on
};

/// *sum += the sum of squares, in double and in order.
struct SquareSum {
  Array in;
  double* sum = nullptr;
};

/// Softmax over experts, then the `top_k` largest of each token: their numbers
/// (ties: the lower one) and weights, divided by their sum when `normalize`.
/// Keeps all probabilities, fp32 [tokens, experts].
struct Route {
  Matrix logits;         // [tokens, experts]
  Matrix probabilities;  // fp32
  Indices experts;       // [tokens, top_k]
  Matrix weights;        // fp32 [tokens, top_k]
  bool normalize = true;
};
/// logits_gradient from that of the chosen weights, and from the balance loss
/// (Switch Transformers, arXiv 2101.03961, eq. 4-6) whose gradient with respect
/// to a probability of expert e is balance[e], fp32 [experts] (empty: none).
struct RouteBackward {
  Matrix probabilities, weights_gradient, logits_gradient;
  Indices experts;
  Array balance;
  bool normalize = true;
};
/// *sum += factor * the sum over tokens and experts e of probabilities[:, e] *
/// counts[e], in double and in order: with E / (N k N) the balance loss, E
/// sum_e f_e P_e, of N tokens whose k choices fell on experts `counts` times
/// (Switch Transformers, arXiv 2101.03961, eq. 4-6).
struct BalanceSum {
  Matrix probabilities;  // fp32 [tokens, experts]
  Array counts;          // fp32 [experts]
  double factor = 1;
  double* sum = nullptr;
};
/// out[i, :] = in[from[i], :], times factor[i] when given; 0 where from[i] < 0.
struct GatherRows {
  Matrix in, out;
  Indices from;
  Array factor;  // fp32 [from.size] or empty
};
/// out[to[i], :] += in[i, :] * factor[i], in the order of i; none where to[i] <
/// 0.
struct ScatterRows {
  Matrix in, out;
  Indices to;
  Array factor;  // fp32 or empty
};
/// out[i] = the sum over columns of a[from[i], :] * b[i, :]; 0 where from[i] <
/// 0.
struct DotRows {
  Matrix a, b;
  Indices from;
  Array out;  // fp32
};

/// Top-k compression with error feedback (arXiv 1712.01887): adds `gradient` to
/// `feedback`, takes its `values.size` largest magnitudes (ties: the lower
/// place) out of it into values and places.
struct SelectLargest {
  Array gradient, feedback;  // feedback fp32
  Array values;
  Indices places;
};
/// out[places[i]] += values[i], in order.
struct AddAtPlaces {
  Array values;
  Indices places;
  Array out;
};

}  // namespace kernels

using Kernel = std::variant<
    kernels::Product, kernels::AddRow, kernels::SumRows, kernels::Embed,
    kernels::EmbedBackward, kernels::NormForward, kernels::NormBackward,
    kernels::Add, kernels::Scale, kernels::Fill, kernels::Copy, kernels::Rotate,
    kernels::AttentionForward, kernels::MergeAttention, kernels::AttentionDelta,
    kernels::AttentionBackward, kernels::ActivationForward,
    kernels::ActivationBackward, kernels::LossMaximum, kernels::LossSum,
    kernels::LossTotal, kernels::LossGradient, kernels::AdamW,
    kernels::SquareSum, kernels::Route, kernels::RouteBackward,
    kernels::BalanceSum, kernels::GatherRows, kernels::ScatterRows,
    kernels::DotRows, kernels::SelectLargest, kernels::AddAtPlaces>;

/// Runs the kernel on the processor, now.
void run_on_cpu(const Kernel& kernel);

}  // namespace ztplan
