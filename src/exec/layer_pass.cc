#include "exec/layer_pass.h"

namespace ztplan {

using namespace kernels;  // NOLINT: their names are this file's vocabulary

void LayerPass::linear(const Matrix& x, const Matrix& w, const Array& bias,
                       const Matrix& y) const {
  launch(Product{.a = x, .b = w, .c = y, .transpose_b = true});
  if (!bias.empty()) launch(AddRow{y, bias});
}

void LayerPass::weight_gradient(const Matrix& x, const Matrix& y_gradient,
                                const Matrix& w_gradient,
                                const Array& bias_gradient) const {
  launch(Product{.a = y_gradient,
                 .b = x,
                 .c = w_gradient,
                 .transpose_a = true,
                 .accumulate = true});
  if (!bias_gradient.empty()) launch(SumRows{y_gradient, bias_gradient});
}

void LayerPass::input_gradient(const Matrix& y_gradient, const Matrix& w,
                               const Matrix& x_gradient) const {
  launch(Product{.a = y_gradient, .b = w, .c = x_gradient});
}

Matrix LayerPass::gather_stream(const Matrix& stream) const {
  if (!context.cuts_stream()) return stream;
  const Array wide = scratch.array(Scratch::wide, dtype());
  context.tensor.all_gather(Lane::compute, as_array(stream), wide);
  return as_matrix(wide, n.hidden);
}

Matrix LayerPass::before_sum(const Matrix& stream) const {
  return context.cuts_stream()
             ? scratch.matrix(Scratch::wide, n.hidden, dtype())
             : stream;
}

Matrix LayerPass::sum_stream(const Matrix& stream) const {
  if (!context.cuts_stream()) {
    context.tensor.all_reduce(Lane::compute, as_array(stream), Reduction::sum);
    return stream;
  }
  const Array wide = scratch.array(Scratch::wide, dtype());
  const std::int64_t own = n.stream * n.hidden;
  const Array shard = slice(wide, context.tensor.rank() * own, own);
  context.tensor.reduce_scatter(Lane::compute, wide, shard);
  return as_matrix(shard, n.hidden);
}

}  // namespace ztplan
