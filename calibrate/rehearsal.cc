#include "calibrate/rehearsal.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace ztplan {

using namespace kernels;  // NOLINT: their names are this file's vocabulary

namespace {

constexpr std::int64_t kColumns = 256;  // of a row that a pass works on
constexpr std::int64_t kWords = 512;    // of a vocabulary
constexpr int kHalf = 2;                // bytes of a 16-bit element

/// Elements of a pass of so many bytes.
std::int64_t elements_of(const Stream& work) {
  const int each = fused_bytes(work.operation) * bytes_of(work.precision);
  return std::max<std::int64_t>(1, kHalf * work.bytes.value / each);
}

/// Rows of `columns` that hold them.
std::int64_t pass_rows(const Stream& work, std::int64_t columns) {
  return std::max<std::int64_t>(1, elements_of(work) / columns);
}

/// Bytes of a parameter whose Adam states are stepped: a gradient and three
/// states of which the master may be the weight itself, read and written.
int optimizer_bytes(Precision precision) {
  constexpr int kFp32 = 24, kMixed = 30;
  return precision == Precision::fp32 ? kFp32 : kMixed;
}

}  // namespace

bool can_rehearse(Operation operation) {
  return operation != Operation::dropout;
}

Rehearsal::Rehearsal(Device& device, const Work& work) : device_(device) {
  std::visit([&](const auto& kind) { lay(kind); }, work);
  for (const Kernel& kernel : kernels_) device_.launch(Lane::compute, kernel);
}

void Rehearsal::run() const {
  for (const Kernel& kernel : kernels_) device_.launch(Lane::compute, kernel);
}

template <class Other>
void Rehearsal::lay(const Other&) {
  require(false, "only what a device computes is rehearsed");
}

/// Of values whose sums stay small: never zeros, which some units add faster.
Array Rehearsal::array(std::int64_t size, Precision dtype) {
  const Array all{device_.allocate(Tier::device, Term::activations,
                                   Bytes{size * bytes_of(dtype)}),
                  size, dtype};
  const Array numbers{device_.allocate(Tier::device, Term::activations,
                                       Bytes{size * bytes_of(Precision::fp32)}),
                      size, Precision::fp32};
  std::vector<float> values(static_cast<std::size_t>(size));
  std::uint64_t state = static_cast<std::uint64_t>(size);
  for (float& value : values) {
    // Knuth's MMIX generator.
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    value = static_cast<float>(static_cast<double>(state >> 40U) / (1 << 24U) -
                               0.5);
  }
  device_.copy(Lane::compute, numbers.data,
               reinterpret_cast<const std::byte*>(values.data()),
               bytes_in(numbers));
  device_.launch(Lane::compute, Scale{numbers, all, 1});
  device_.synchronize();
  device_.release(numbers.data);
  return all;
}

Matrix Rehearsal::matrix(std::int64_t rows, std::int64_t columns,
                         Precision dtype) {
  return as_matrix(array(rows * columns, dtype), columns);
}

/// 0, 1, ... over and over.
Indices Rehearsal::counting(std::int64_t size, std::int64_t below) {
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < size; ++i)
    values.push_back(static_cast<std::int32_t>(i % below));
  const Bytes bytes{size * static_cast<std::int64_t>(sizeof(std::int32_t))};
  std::byte* const data =
      device_.allocate(Tier::device, Term::activations, bytes);
  device_.copy(Lane::compute, data,
               reinterpret_cast<const std::byte*>(values.data()), bytes);
  device_.synchronize();
  return {reinterpret_cast<std::int32_t*>(data), size};
}

void Rehearsal::lay(const Matmul& work) {
  const Precision dtype = work.precision;
  for (std::int64_t i = 0; i < work.batch; ++i) {
    const Matrix a = matrix(work.m, work.k, dtype);
    const Matrix b = matrix(work.k, work.n, dtype);
    const Matrix c = matrix(work.m, work.n, dtype);
    const Matrix a_turned = as_matrix(as_array(a), work.m);  // [k, m]
    const Matrix b_turned = as_matrix(as_array(b), work.k);  // [n, k]
    kernels_.push_back(
        Product{.a = a, .b = b_turned, .c = c, .transpose_b = true});
    kernels_.push_back(Product{.a = a, .b = b, .c = c});
    kernels_.push_back(Product{.a = a_turned,
                               .b = b,
                               .c = c,
                               .transpose_a = true,
                               .accumulate = true});
  }
  works_ = 3;
}

void Rehearsal::lay(const AttentionWork& work) {
  const Precision dtype = work.precision;
  const Indices queries = counting(work.queries, work.queries);
  const Indices keys = counting(work.keys, work.keys);
  AttentionShape shape;
  shape.sequences = work.sequences;
  shape.queries = work.queries;
  shape.keys = work.keys;
  shape.heads = work.heads;
  shape.kv_heads = work.kv_heads;
  shape.qk_size = work.qk_size;
  shape.v_size = work.v_size;
  shape.causal = work.causal;
  shape.window = work.window;
  shape.query_positions = queries;
  shape.key_positions = keys;
  shape.scale = 1 / std::sqrt(static_cast<float>(work.qk_size));
  const std::int64_t from = work.sequences * work.queries;
  const std::int64_t to = work.sequences * work.keys;
  const std::int64_t rows = work.sequences * work.heads * work.queries;
  const auto one = [&](std::int64_t tokens, int heads, int size) {
    return matrix(tokens, static_cast<std::int64_t>(heads) * size, dtype);
  };
  const Matrix q = one(from, work.heads, work.qk_size);
  const Matrix k = one(to, work.kv_heads, work.qk_size);
  const Matrix v = one(to, work.kv_heads, work.v_size);
  const Matrix out = one(from, work.heads, work.v_size);
  const Array log_sum = array(rows, Precision::fp32);
  Array probabilities;
  if (work.kernel == AttentionKernel::eager)
    probabilities = array(rows * work.keys, dtype);
  const AttentionForward forward{shape, q, k, v, out, log_sum, probabilities};
  if (work.direction == Direction::forward) {
    kernels_.emplace_back(forward);
    return;
  }
  device_.launch(Lane::compute, forward);
  const Matrix out_gradient = one(from, work.heads, work.v_size);
  const Array delta = array(rows, Precision::fp32);
  kernels_.push_back(
      AttentionDelta{out, out_gradient, delta, work.heads, work.sequences});
  kernels_.push_back(
      AttentionBackward{.shape = shape,
                        .q = q,
                        .k = k,
                        .v = v,
                        .out_gradient = out_gradient,
                        .log_sum = log_sum,
                        .delta = delta,
                        .probabilities = probabilities,
                        .q_gradient = one(from, work.heads, work.qk_size),
                        .k_gradient = one(to, work.kv_heads, work.qk_size),
                        .v_gradient = one(to, work.kv_heads, work.v_size)});
}

void Rehearsal::lay(const Stream& work) {
  require(can_rehearse(work.operation), "the executor has a kernel for it");
  switch (work.operation) {
    case Operation::norm:
    case Operation::norm_backward:
      return lay_norm(work);
    case Operation::activation:
    case Operation::activation_backward:
    case Operation::gated:
    case Operation::gated_backward:
      return lay_activation(work);
    case Operation::loss:
    case Operation::loss_backward:
      return lay_loss(work);
    case Operation::accumulate:
    case Operation::square_sum:
    case Operation::optimizer:
      return lay_states(work);
    default:
      return lay_rows(work);
  }
}

void Rehearsal::lay_norm(const Stream& work) {
  const std::int64_t rows = pass_rows(work, kColumns);
  const auto like = [&] { return matrix(rows, kColumns, work.precision); };
  const auto vector = [&] { return array(kColumns, work.precision); };
  const NormForward forward{.in = like(),
                            .out = like(),
                            .weight = vector(),
                            .bias = vector(),
                            .mean = array(rows, Precision::fp32),
                            .rstd = array(rows, Precision::fp32)};
  if (work.operation == Operation::norm) {
    kernels_.emplace_back(forward);
    return;
  }
  device_.launch(Lane::compute, forward);
  kernels_.push_back(NormBackward{.in = forward.in,
                                  .out_gradient = forward.out,
                                  .in_gradient = like(),
                                  .weight = forward.weight,
                                  .mean = forward.mean,
                                  .rstd = forward.rstd,
                                  .weight_gradient = vector(),
                                  .bias_gradient = vector()});
}

void Rehearsal::lay_activation(const Stream& work) {
  const bool gated = work.operation == Operation::gated ||
                     work.operation == Operation::gated_backward;
  const Activation kind = gated ? Activation::silu : Activation::gelu;
  const std::int64_t rows = pass_rows(work, kColumns);
  const Matrix in = matrix(rows, (gated ? 2 : 1) * kColumns, work.precision);
  const Matrix out = matrix(rows, kColumns, work.precision);
  const bool forward = work.operation == Operation::activation ||
                       work.operation == Operation::gated;
  if (forward)
    kernels_.push_back(ActivationForward{in, out, kind, gated});
  else
    kernels_.push_back(ActivationBackward{
        in, out, matrix(rows, in.columns, work.precision), kind, gated});
}

/// Copies, sums and rows that are sent around.
void Rehearsal::lay_rows(const Stream& work) {
  const std::int64_t rows = pass_rows(work, kColumns);
  const Matrix in = matrix(rows, kColumns, work.precision);
  const Matrix out = matrix(rows, kColumns, work.precision);
  const Indices ids = counting(rows, rows);
  constexpr std::int64_t kHeadSize = 64;
  switch (work.operation) {
    case Operation::rotary:
      kernels_.push_back(
          Rotate{.x = in, .positions = ids, .head_size = kHeadSize});
      return;
    case Operation::residual:
      kernels_.push_back(AddRow{in, array(kColumns, work.precision)});
      kernels_.push_back(Add{as_array(in), as_array(out), as_array(out)});
      return;
    case Operation::dispatch:
      kernels_.push_back(GatherRows{in, out, ids, {}});
      return;
    case Operation::embedding:
      kernels_.push_back(Embed{.ids = ids, .table = in, .out = out});
      return;
    case Operation::embedding_backward:
      kernels_.push_back(
          EmbedBackward{.ids = ids, .out_gradient = in, .table_gradient = out});
      return;
    default:
      kernels_.push_back(Copy{in, out});
  }
}

void Rehearsal::lay_loss(const Stream& work) {
  const std::int64_t tokens = pass_rows(work, kWords);
  const Matrix logits = matrix(tokens, kWords, work.precision);
  const Indices targets = counting(tokens, kWords);
  const Array maximum = array(tokens, Precision::fp32);
  const Array sum = array(tokens, Precision::fp32);
  const LossMaximum find{logits, 0, kWords, maximum};
  const LossSum add{
      logits, 0, kWords, targets, maximum, sum, array(tokens, Precision::fp32)};
  if (work.operation == Operation::loss) {
    kernels_.emplace_back(find);
    kernels_.emplace_back(add);
    return;
  }
  device_.launch(Lane::compute, find);
  device_.launch(Lane::compute, add);
  kernels_.push_back(LossGradient{logits,
                                  matrix(tokens, kWords, work.precision), 0,
                                  kWords, targets, maximum, sum});
}

/// Gradients and optimizer states, whose bytes are theirs alone.
void Rehearsal::lay_states(const Stream& work) {
  const std::int64_t bytes = work.bytes.value;
  if (work.operation == Operation::square_sum) {
    const std::int64_t size =
        std::max<std::int64_t>(1, bytes / bytes_of(work.precision));
    auto* const sum = reinterpret_cast<double*>(
        device_.allocate(Tier::device, Term::buffers, Bytes{sizeof(double)}));
    kernels_.push_back(SquareSum{array(size, work.precision), sum});
    return;
  }
  if (work.operation == Operation::accumulate) {
    // Read in 16 bits, read and written in 32.
    constexpr int kBytes = 10;
    const std::int64_t size = std::max<std::int64_t>(1, bytes / kBytes);
    kernels_.push_back(Copy{matrix(1, size, work.precision),
                            matrix(1, size, Precision::fp32), true});
    return;
  }
  const std::int64_t size =
      std::max<std::int64_t>(1, bytes / optimizer_bytes(work.precision));
  const auto state = [&] { return array(size, Precision::fp32); };
  AdamW adam;
  adam.master = state();
  adam.first_moment = state();
  adam.second_moment = state();
  adam.gradient = state();
  adam.weight = work.precision == Precision::fp32 ? adam.master
                                                  : array(size, work.precision);
  device_.launch(Lane::compute, Fill{adam.second_moment, 1});
  kernels_.emplace_back(adam);
}

}  // namespace ztplan
