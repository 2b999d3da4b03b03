#include "step/work_writer.h"

#include <utility>

#include "strategy/ledger.h"

namespace ztplan {
namespace {

constexpr int kHalf = 2;  // bytes of a 16-bit element
constexpr int kCast = 2 + 1 + 1;
// To fp4: the largest of the tensor and of its Hadamard transform is found by a
// pass of its own, then it is read again, and it and its transpose are written,
// half a byte each. Source: Transformer Engine, NVFP4BlockScaling (pytorch/
// csrc/quantizer.cpp, NVFP4Quantizer::quantize); arXiv 2509.25149, section 4.
constexpr int kCastToFp4 = 2 + 2 + 1;
// y + scaling * B(A(x)): the small product scaled, then added; backward scales
// its gradient and adds what it sends back. Source: huggingface/peft,
// tuners/lora/layer.py, Linear.forward: two products, a scale and a sum.
constexpr int kAdaptScale = 2 + 2, kAdaptSum = 2 + 2 + 2;
constexpr int kAdaptForward = kAdaptScale + kAdaptSum;
constexpr std::int64_t kAdaptLaunches = 4;

}  // namespace

WorkWriter::WorkWriter(const Setting& setting, const Strategy& strategy)
    : strategy_(strategy),
      workload_(setting.workload),
      tokens_(divide_up(static_cast<std::int64_t>(strategy.micro_batch) *
                            setting.workload.sequence,
                        strategy.context)),
      cut_tokens_(strategy.sequence_parallel
                      ? divide_up(tokens_, strategy.tensor)
                      : tokens_),
      width_(workload_.precision == Precision::fp32 ? 4 : kHalf) {}

void WorkWriter::add(TimeTerm term, const Work& work, std::int64_t count,
                     int beside) {
  recipe_.items.push_back({term, count, work, beside, again_, weights_});
}

void WorkWriter::matmul(std::int64_t m, std::int64_t n, std::int64_t k,
                        std::int64_t batch, bool wide) {
  const Precision precision =
      wide ? weight_dtype(workload_.precision) : workload_.precision;
  add(TimeTerm::compute, Matmul{m, n, k, batch, precision}, 1, 0);
}

void WorkWriter::collective(TimeTerm term, CollectiveOp op, const Group& group,
                            Bytes bytes, std::int64_t count, int beside) {
  if (group.size == 1 || bytes.value == 0 || count == 0) return;
  const Rings rings =
      workload_.framework.rings_only ? Rings::only : Rings::planned;
  add(term, Collective{op, group, bytes, rings}, count, beside);
}

void WorkWriter::tensor(CollectiveOp op, std::int64_t width, int beside) {
  collective(TimeTerm::tensor_comm, op, tensor_group(strategy_),
             Bytes{tokens_ * width * width_}, 1, beside);
}

/// Of fp8 products: an input in 16 bits is read, it and its transpose written.
/// What a norm or an activation hands to a column-parallel layer it writes so
/// itself; rows of experts are cast before each product.
/// Source: Transformer Engine, cast_transpose kernels.
void WorkWriter::cast(const Linear& linear, std::int64_t width) {
  const Framework& framework = workload_.framework;
  const bool fused = linear.routed && framework.fused_experts;
  if (linear.wide || fused || framework.fuses_casts) return;
  const std::int64_t elements = linear.batch * linear.rows * width;
  if (workload_.precision == Precision::fp8)
    pass(Operation::copy, elements, kCast);
  if (workload_.precision == Precision::fp4)
    pass(Operation::copy, elements, kCastToFp4);
}

void WorkWriter::forward(const Linear& linear) {
  if (linear.routed || linear.cut == Cut::row) cast(linear, linear.inputs);
  const bool sequence_cut = strategy_.sequence_parallel;
  if (linear.cut == Cut::column && sequence_cut)
    tensor(CollectiveOp::all_gather, linear.whole, 0);
  matmul(linear.rows, linear.outputs, linear.inputs, linear.batch, linear.wide);
  if (linear.cut == Cut::row)
    tensor(
        sequence_cut ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce,
        linear.whole, 0);
}

// Megatron-LM starts the collectives of a column-parallel layer beside its
// products: the saved input is gathered again beside the input gradient, and
// that gradient is summed beside the weight gradient.
// Source: Megatron-LM core/tensor_parallel/layers.py,
// LinearWithGradAccumulationAndAsyncCommunication.backward.
void WorkWriter::backward(const Linear& linear) {
  cast(linear, linear.outputs);
  const bool sequence_cut = strategy_.sequence_parallel;
  if (linear.cut == Cut::row && sequence_cut)
    tensor(CollectiveOp::all_gather, linear.whole, 0);
  matmul(linear.rows, linear.inputs, linear.outputs, linear.batch, linear.wide);
  weights(true);
  if (linear.cut == Cut::column && sequence_cut)
    tensor(CollectiveOp::all_gather, linear.whole, 1);
  if (!workload_.adapters.any())  // frozen weights have no gradient
    matmul(linear.outputs, linear.inputs, linear.rows, linear.batch,
           linear.wide);
  weights(false);
  if (linear.cut == Cut::column)
    tensor(
        sequence_cut ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce,
        linear.whole, workload_.framework.overlaps_tensor ? 1 : 0);
}

void WorkWriter::pass(Operation what, std::int64_t elements) {
  pass(what, elements, fused_bytes(what));
}

void WorkWriter::pass(Operation what, std::int64_t elements, int bytes_each) {
  if (bytes_each == 0) return;
  const bool of_loss =
      what == Operation::loss || what == Operation::loss_backward;
  add(TimeTerm::compute,
      Stream{Bytes{elements * bytes_each * width_ / kHalf},
             of_loss ? PassKind::loss : PassKind::layer, what,
             weight_dtype(workload_.precision)},
      1, 0);
}

void WorkWriter::adapt_forward(const Adapted& adapted, std::int64_t rows,
                               std::int64_t experts) {
  const int rank = workload_.adapters.rank;
  matmul(rows, rank, adapted.inputs, experts, false);
  matmul(rows, adapted.outputs, rank, experts, false);
  pass(Operation::copy, experts * rows * adapted.outputs, kAdaptForward);
}

void WorkWriter::adapt_backward(const Adapted& adapted, std::int64_t rows,
                                std::int64_t experts) {
  const int rank = workload_.adapters.rank;
  pass(Operation::copy, experts * rows * adapted.outputs, kAdaptScale);
  matmul(rows, rank, adapted.outputs, experts, false);
  matmul(adapted.outputs, rank, rows, experts, false);
  matmul(rows, adapted.inputs, rank, experts, false);
  matmul(rank, adapted.inputs, rows, experts, false);
  pass(Operation::copy, experts * rows * adapted.inputs, kAdaptSum);
}

void WorkWriter::adapt(Direction direction, const std::vector<Adapted>& adapted,
                       std::int64_t rows, std::int64_t experts) {
  const bool forward = direction == Direction::forward;
  for (const Adapted& each : adapted) {
    forward ? adapt_forward(each, rows, experts)
            : adapt_backward(each, rows, experts);
    launches((forward ? 1 : 2) * kAdaptLaunches);
  }
}

// Source: bitsandbytes autograd/_functions.py, MatMul4Bit: dequantize_4bit,
// then a linear layer, forward and backward.
void WorkWriter::dequantize(std::int64_t weights) {
  if (workload_.quantize == Quantize::none) return;
  const Bytes read = quantized_bytes(workload_.quantize, weights);
  add(TimeTerm::compute, Stream{read + Bytes{weights * width_}}, 1, 0);
}

void WorkWriter::attention(const AttentionWork& work, std::int64_t count) {
  add(TimeTerm::compute, work, count, 0);
}

Recipe WorkWriter::take(std::string name) && {
  recipe_.name = std::move(name);
  return std::move(recipe_);
}

}  // namespace ztplan
