// One pass of one micro-batch through one layer: what its parts read and write.
// Inner to native_layer.h.
#pragma once

#include "exec/native_layer.h"

namespace ztplan {

struct LayerPass {
  const RankContext& context;
  const Layer& layer;
  const LayerFlats& flats;
  const NativeSizes& n;
  UnitArrays weights, gradients;  // no gradients in forward
  const SavedBlock& saved;
  const ScratchBlock& scratch;

  void launch(const Kernel& kernel) const {
    context.device.launch(Lane::compute, kernel);
  }
  Precision dtype() const { return context.dtype(); }

  static Matrix matrix_of(const Array& flat, const Spot& spot) {
    return as_matrix(slice(flat, spot.offset, spot.rows * spot.columns),
                     spot.columns);
  }
  static Array array_of(const Array& flat, const Spot& spot) {
    return slice(flat, spot.offset, spot.rows * spot.columns);
  }
  bool has(LayerPart part) const { return flats.at(part).rows > 0; }
  Matrix weight(LayerPart part) const {
    return matrix_of(weights.dense, flats.at(part));
  }
  Matrix gradient(LayerPart part) const {
    return matrix_of(gradients.dense, flats.at(part));
  }
  Array vector(LayerPart part) const {
    return array_of(weights.dense, flats.at(part));
  }
  Array vector_gradient(LayerPart part) const {
    return array_of(gradients.dense, flats.at(part));
  }

  /// What forward saved, or the place where backward made it again.
  Matrix kept(Saved name, Scratch again, std::int64_t columns) const {
    return saved.has(name) ? saved.matrix(name, columns, dtype())
                           : scratch.matrix(again, columns, dtype());
  }
  Array kept_fp32(Saved name, Scratch again) const {
    return saved.has(name) ? saved.array(name, Precision::fp32)
                           : scratch.array(again, Precision::fp32);
  }
  Array scores() const {
    return saved.has(Saved::scores) ? saved.array(Saved::scores, dtype())
                                    : scratch.array(Scratch::scores, dtype());
  }

  /// y = x w^T (+ bias).
  void linear(const Matrix& x, const Matrix& w, const Array& bias,
              const Matrix& y) const;
  /// w_gradient += y_gradient^T x, and the bias's.
  void weight_gradient(const Matrix& x, const Matrix& y_gradient,
                       const Matrix& w_gradient,
                       const Array& bias_gradient) const;
  /// x_gradient = y_gradient w.
  void input_gradient(const Matrix& y_gradient, const Matrix& w,
                      const Matrix& x_gradient) const;

  /// All tokens' rows of `stream`: gathered into scratch where it is cut.
  Matrix gather_stream(const Matrix& stream) const;
  /// Where a product of all tokens' rows goes that tensor ranks then sum: into
  /// `stream` itself, or scratch where it is cut.
  Matrix before_sum(const Matrix& stream) const;
  /// Sums over tensor ranks what `before_sum` was filled with: this rank's rows
  /// of the sum.
  Matrix sum_stream(const Matrix& stream) const;
};

/// Attention itself: from the saved projections to what was attended to; again
/// where backward needs what was dropped of it.
void attend(const LayerPass& pass);
/// From the gradient of `attended` to that of the projections, in scratch.
void attend_backward(const LayerPass& pass);

/// Routed experts of `normed` rows, written to `out`.
void run_experts(const LayerPass& pass, const Matrix& normed,
                 const Matrix& out);
/// `branch` is the gradient of `normed`: added to when `accumulate`.
void run_experts_backward(const LayerPass& pass, const Matrix& normed,
                          const Matrix& out_gradient, const Matrix& branch,
                          bool accumulate);

}  // namespace ztplan
