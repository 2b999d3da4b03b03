#include "exec/native_ends.h"

#include "base/units.h"

namespace ztplan {

using namespace kernels;  // NOLINT: their names are this file's vocabulary

NativeEnds::NativeEnds(const RankContext& context, std::int64_t padded_vocab)
    : context_(context),
      rows_(padded_vocab / context.strategy.tensor),
      first_(rows_ * context.position.tensor) {}

void NativeEnds::launch(const Kernel& kernel) const {
  context_.device.launch(Lane::compute, kernel);
}

/// This tensor rank's part of all tokens' rows.
Array NativeEnds::own_rows(const Array& wide) const {
  const std::int64_t own = wide.size / context_.tensor.size();
  return slice(wide, context_.tensor.rank() * own, own);
}

Matrix NativeEnds::gathered(const Matrix& stream, const Array& wide) const {
  if (!context_.cuts_stream()) return stream;
  context_.tensor.all_gather(Lane::compute, as_array(stream), wide);
  return as_matrix(wide, context_.model.hidden);
}

Indices NativeEnds::own_positions(const Matrix& stream) const {
  const Indices& all = context_.token_positions;
  const std::int64_t from =
      context_.cuts_stream() ? context_.tensor.rank() * stream.rows : 0;
  return {all.data + from, stream.rows};
}

void NativeEnds::embed(const EndArrays& weights, const Indices& ids,
                       const Array& wide, const Matrix& stream) const {
  const std::int64_t hidden = context_.model.hidden;
  const Matrix all = context_.cuts_stream() ? as_matrix(wide, hidden) : stream;
  launch(Embed{.ids = ids,
               .first = first_,
               .table = as_matrix(weights.table, hidden),
               .out = all});
  if (context_.cuts_stream())
    context_.tensor.reduce_scatter(Lane::compute, wide, as_array(stream));
  else
    context_.tensor.all_reduce(Lane::compute, as_array(stream), Reduction::sum);
  if (weights.positions.empty()) return;
  launch(Embed{.ids = own_positions(stream),
               .table = as_matrix(weights.positions, hidden),
               .out = stream,
               .accumulate = true});
}

void NativeEnds::embed_backward(const EndArrays& gradients, const Indices& ids,
                                const Array& wide, const Matrix& stream) const {
  const std::int64_t hidden = context_.model.hidden;
  if (!gradients.positions.empty())
    launch(EmbedBackward{
        .ids = own_positions(stream),
        .out_gradient = stream,
        .table_gradient = as_matrix(gradients.positions, hidden)});
  launch(EmbedBackward{.ids = ids,
                       .first = first_,
                       .out_gradient = gathered(stream, wide),
                       .table_gradient = as_matrix(gradients.table, hidden)});
}

void NativeEnds::loss(const EndArrays& weights, const HeadBlock& saved,
                      const Matrix& logits, const Array& wide,
                      double* total) const {
  const std::int64_t hidden = context_.model.hidden;
  const auto fp32 = [&](HeadSaved name) {
    return saved.array(name, Precision::fp32);
  };
  const Matrix normed =
      saved.matrix(HeadSaved::normed, hidden, context_.dtype());
  launch(NormForward{
      .in = saved.matrix(HeadSaved::input, hidden, context_.dtype()),
      .out = normed,
      .weight = weights.norm,
      .bias = weights.norm_bias,
      .mean = fp32(HeadSaved::mean),
      .rstd = fp32(HeadSaved::rstd),
      .epsilon = static_cast<float>(context_.model.norm_epsilon)});
  launch(Product{.a = gathered(normed, wide),
                 .b = as_matrix(weights.table, hidden),
                 .c = logits,
                 .transpose_b = true});
  const Indices targets = saved.indices(HeadSaved::targets);
  const Array maximum = fp32(HeadSaved::maximum), sum = fp32(HeadSaved::sum),
              target = fp32(HeadSaved::target_logit);
  const std::int64_t vocab = context_.model.vocab;
  launch(LossMaximum{logits, first_, vocab, maximum});
  context_.tensor.all_reduce(Lane::compute, maximum, Reduction::maximum);
  launch(LossSum{logits, first_, vocab, targets, maximum, sum, target});
  context_.tensor.all_reduce(Lane::compute, sum, Reduction::sum);
  context_.tensor.all_reduce(Lane::compute, target, Reduction::sum);
  launch(LossTotal{targets, maximum, sum, target, total});
}

void NativeEnds::loss_backward(const EndArrays& weights,
                               const EndArrays& gradients,
                               const HeadBlock& saved, const Matrix& logits,
                               const Array& wide, float scale,
                               const Matrix& stream) const {
  const std::int64_t hidden = context_.model.hidden;
  const auto fp32 = [&](HeadSaved name) {
    return saved.array(name, Precision::fp32);
  };
  launch(LossGradient{logits, logits, first_, context_.model.vocab,
                      saved.indices(HeadSaved::targets),
                      fp32(HeadSaved::maximum), fp32(HeadSaved::sum), scale});
  const Matrix normed =
      saved.matrix(HeadSaved::normed, hidden, context_.dtype());
  launch(Product{.a = logits,
                 .b = gathered(normed, wide),
                 .c = as_matrix(gradients.table, hidden),
                 .transpose_a = true,
                 .accumulate = true});
  const Matrix all = as_matrix(wide, hidden);
  launch(Product{.a = logits, .b = as_matrix(weights.table, hidden), .c = all});
  Array branch = wide;
  if (context_.cuts_stream()) {
    branch = own_rows(wide);
    context_.tensor.reduce_scatter(Lane::compute, wide, branch);
  } else {
    context_.tensor.all_reduce(Lane::compute, wide, Reduction::sum);
  }
  launch(NormBackward{
      .in = saved.matrix(HeadSaved::input, hidden, context_.dtype()),
      .out_gradient = as_matrix(branch, hidden),
      .in_gradient = stream,
      .weight = weights.norm,
      .mean = fp32(HeadSaved::mean),
      .rstd = fp32(HeadSaved::rstd),
      .weight_gradient = gradients.norm,
      .bias_gradient = gradients.norm_bias});
}

}  // namespace ztplan
