#include "exec/native_layer.h"

#include "exec/layer_pass.h"
#include "strategy/schedule.h"

namespace ztplan {

using namespace kernels;  // NOLINT: their names are this file's vocabulary

namespace {

/// Tensors of one of a layer's two norms.
struct NormOf {
  Saved input, mean, rstd, normed;
  LayerPart weight, bias;
};
constexpr NormOf kNorm1{Saved::input,
                        Saved::mean1,
                        Saved::rstd1,
                        Saved::normed1,
                        LayerPart::norm1_weight,
                        LayerPart::norm1_bias};
constexpr NormOf kNorm2{
    Saved::middle,           Saved::mean2,         Saved::rstd2, Saved::normed2,
    LayerPart::norm2_weight, LayerPart::norm2_bias};

Matrix norm(const LayerPass& p, const NormOf& of) {
  const Matrix out = p.kept(of.normed, Scratch::normed, p.n.hidden);
  p.launch(
      NormForward{.in = p.saved.matrix(of.input, p.n.hidden, p.dtype()),
                  .out = out,
                  .weight = p.vector(of.weight),
                  .bias = p.vector(of.bias),
                  .mean = p.saved.array(of.mean, Precision::fp32),
                  .rstd = p.saved.array(of.rstd, Precision::fp32),
                  .epsilon = static_cast<float>(p.context.model.norm_epsilon)});
  return out;
}

/// Adds the gradient through the norm to the stream's.
void norm_backward(const LayerPass& p, const NormOf& of, const Matrix& branch,
                   const Matrix& stream) {
  p.launch(NormBackward{.in = p.saved.matrix(of.input, p.n.hidden, p.dtype()),
                        .out_gradient = branch,
                        .in_gradient = stream,
                        .weight = p.vector(of.weight),
                        .mean = p.saved.array(of.mean, Precision::fp32),
                        .rstd = p.saved.array(of.rstd, Precision::fp32),
                        .weight_gradient = p.vector_gradient(of.weight),
                        .bias_gradient = p.vector_gradient(of.bias),
                        .accumulate = true});
}

/// Queries and keys, turned to their positions or back.
void rotate(const LayerPass& p, const Matrix& projected, bool inverse) {
  if (p.context.model.positions != Positions::rotary) return;
  p.launch(Rotate{.x = columns_of(projected, 0, p.n.query() + p.n.key()),
                  .positions = p.context.token_positions,
                  .head_size = p.n.head_size,
                  .base = p.context.model.rotary_base,
                  .inverse = inverse});
}

void add_branch(const LayerPass& p, const Matrix& branch, LayerPart bias,
                Saved stream, const Matrix& out) {
  if (p.has(bias)) p.launch(AddRow{branch, p.vector(bias)});
  p.launch(
      Add{as_array(branch), p.saved.array(stream, p.dtype()), as_array(out)});
}

void attention_forward(const LayerPass& p) {
  const Matrix normed = norm(p, kNorm1);
  const Matrix projected =
      p.saved.matrix(Saved::projected, p.n.projected(), p.dtype());
  p.linear(p.gather_stream(normed), p.weight(LayerPart::projected),
           p.vector(LayerPart::projected_bias), projected);
  rotate(p, projected, false);
  attend(p);
  const Matrix middle = p.saved.matrix(Saved::middle, p.n.hidden, p.dtype());
  p.linear(p.saved.matrix(Saved::attended, p.n.query(), p.dtype()),
           p.weight(LayerPart::attended), {}, p.before_sum(middle));
  add_branch(p, p.sum_stream(middle), LayerPart::attended_bias, Saved::input,
             middle);
}

Matrix activated(const LayerPass& p) {
  return p.kept(Saved::activated, Scratch::activated, p.n.width);
}

void activate(const LayerPass& p) {
  p.launch(
      ActivationForward{.in = p.saved.matrix(Saved::up, p.n.up(), p.dtype()),
                        .out = activated(p),
                        .kind = p.layer.ffn.activation,
                        .gated = p.n.gated});
}

/// The dense MLP, or the shared experts, of `normed`: rows of the stream.
Matrix mlp_forward(const LayerPass& p, const Matrix& normed,
                   const Matrix& out) {
  const Matrix up = p.saved.matrix(Saved::up, p.n.up(), p.dtype());
  p.linear(p.gather_stream(normed), p.weight(LayerPart::up),
           p.vector(LayerPart::up_bias), up);
  activate(p);
  p.linear(activated(p), p.weight(LayerPart::down), {}, p.before_sum(out));
  return p.sum_stream(out);
}

void feed_forward(const LayerPass& p, const Matrix& out) {
  const Matrix normed = norm(p, kNorm2);
  if (!p.layer.ffn.is_moe())
    return add_branch(p, mlp_forward(p, normed, out), LayerPart::down_bias,
                      Saved::middle, out);
  run_experts(p, normed, out);
  if (p.n.width > 0) {
    // The sum over tensor ranks lands beside `out`, which experts have filled.
    const Matrix shared =
        p.scratch.matrix(Scratch::wide, p.n.hidden, p.dtype());
    const Matrix sum = mlp_forward(p, normed, shared);
    p.launch(Add{as_array(out), as_array(sum), as_array(out)});
  }
  p.launch(Add{as_array(out), p.saved.array(Saved::middle, p.dtype()),
               as_array(out)});
}

bool defers(const LayerPass& p) {
  return splits_backward(p.context.strategy.schedule);
}

/// The gradient of all tokens' rows, kept where weights' come later.
Matrix output_gradient(const LayerPass& p, const Matrix& stream, Saved name) {
  const Matrix all = p.gather_stream(stream);
  if (!defers(p)) return all;
  const Matrix later = p.saved.matrix(name, p.n.hidden, p.dtype());
  p.launch(Copy{all, later});
  return later;
}

void down_weights(const LayerPass& p, const Matrix& down_gradient) {
  p.weight_gradient(activated(p), down_gradient, p.gradient(LayerPart::down),
                    {});
}

/// `up` has its gradient's place.
void up_weights(const LayerPass& p, const Matrix& normed, const Matrix& up) {
  p.weight_gradient(p.gather_stream(normed), up, p.gradient(LayerPart::up),
                    p.vector_gradient(LayerPart::up_bias));
}

void attended_weights(const LayerPass& p, const Matrix& out_gradient) {
  p.weight_gradient(p.saved.matrix(Saved::attended, p.n.query(), p.dtype()),
                    out_gradient, p.gradient(LayerPart::attended), {});
}

void projected_weights(const LayerPass& p, const Matrix& normed,
                       const Matrix& projected_gradient) {
  p.weight_gradient(p.gather_stream(normed), projected_gradient,
                    p.gradient(LayerPart::projected),
                    p.vector_gradient(LayerPart::projected_bias));
}

/// From the gradient of the MLP's output to that of its input rows, summed over
/// tensor ranks: this rank's rows, in scratch.
Matrix mlp_backward(const LayerPass& p, const Matrix& normed,
                    const Matrix& stream) {
  const bool later = defers(p);
  const Matrix down_gradient = output_gradient(p, stream, Saved::down_gradient);
  if (!later) down_weights(p, down_gradient);
  const Matrix hidden = later ? p.scratch.matrix(Scratch::activated_gradient,
                                                 p.n.width, p.dtype())
                              : activated(p);
  p.input_gradient(down_gradient, p.weight(LayerPart::down), hidden);
  const Matrix up = p.saved.matrix(Saved::up, p.n.up(), p.dtype());
  p.launch(ActivationBackward{.in = up,
                              .out_gradient = hidden,
                              .in_gradient = up,
                              .kind = p.layer.ffn.activation,
                              .gated = p.n.gated});
  if (!later) up_weights(p, normed, up);
  const Matrix wide = p.scratch.matrix(Scratch::wide, p.n.hidden, p.dtype());
  p.input_gradient(up, p.weight(LayerPart::up), wide);
  return p.sum_stream(wide);
}

void feed_forward_backward(const LayerPass& p, const Matrix& stream) {
  const Matrix normed =
      p.saved.has(Saved::normed2)
          ? p.saved.matrix(Saved::normed2, p.n.hidden, p.dtype())
          : norm(p, kNorm2);
  if (!p.saved.has(Saved::activated) && p.n.width > 0) activate(p);
  if (p.has(LayerPart::down_bias))
    p.launch(SumRows{stream, p.vector_gradient(LayerPart::down_bias)});
  Matrix branch;
  if (p.n.width > 0) branch = mlp_backward(p, normed, stream);
  if (p.layer.ffn.is_moe()) {
    const bool shared = p.n.width > 0;
    if (!shared)
      branch = rows_of(p.scratch.matrix(Scratch::wide, p.n.hidden, p.dtype()),
                       0, p.n.stream);
    run_experts_backward(p, normed, stream, branch, shared);
  }
  norm_backward(p, kNorm2, branch, stream);
}

void attention_backward(const LayerPass& p, const Matrix& stream) {
  const Matrix normed =
      p.saved.has(Saved::normed1)
          ? p.saved.matrix(Saved::normed1, p.n.hidden, p.dtype())
          : norm(p, kNorm1);
  if (!p.saved.has(Saved::log_sum)) attend(p);
  if (p.has(LayerPart::attended_bias))
    p.launch(SumRows{stream, p.vector_gradient(LayerPart::attended_bias)});
  const bool later = defers(p);
  const Matrix out_gradient =
      output_gradient(p, stream, Saved::attended_gradient);
  if (!later) attended_weights(p, out_gradient);
  p.input_gradient(out_gradient, p.weight(LayerPart::attended),
                   p.scratch.matrix(Scratch::attended, p.n.query(), p.dtype()));
  attend_backward(p);
  const Matrix projected =
      p.scratch.matrix(Scratch::projected, p.n.projected(), p.dtype());
  rotate(p, projected, true);
  if (later)
    p.launch(Copy{projected, p.saved.matrix(Saved::projected, p.n.projected(),
                                            p.dtype())});
  else
    projected_weights(p, normed, projected);
  const Matrix wide = p.scratch.matrix(Scratch::wide, p.n.hidden, p.dtype());
  p.input_gradient(projected, p.weight(LayerPart::projected), wide);
  norm_backward(p, kNorm1, p.sum_stream(wide), stream);
}

}  // namespace

NativeLayer::NativeLayer(const RankContext& context, const Layer& layer,
                         int number)
    : context_(context),
      layer_(layer),
      flats_(layer_flats(context.model, layer, number, context.strategy,
                         context.position)),
      sizes_(native_sizes(context.model, layer, context.workload,
                          context.strategy)) {}

void NativeLayer::forward(const UnitArrays& weights, const SavedBlock& saved,
                          const ScratchBlock& scratch,
                          const Matrix& out) const {
  const LayerPass pass{context_, layer_, flats_, sizes_,
                       weights,  {},     saved,  scratch};
  attention_forward(pass);
  feed_forward(pass, out);
}

void NativeLayer::backward(const UnitArrays& weights,
                           const UnitArrays& gradients, const SavedBlock& saved,
                           const ScratchBlock& scratch,
                           const Matrix& stream) const {
  const LayerPass pass{context_, layer_,    flats_, sizes_,
                       weights,  gradients, saved,  scratch};
  feed_forward_backward(pass, stream);
  attention_backward(pass, stream);
}

void NativeLayer::backward_weights(const UnitArrays& gradients,
                                   const SavedBlock& saved,
                                   const ScratchBlock& scratch) const {
  const LayerPass p{context_, layer_,    flats_, sizes_,
                    {},       gradients, saved,  scratch};
  const auto kept = [&](Saved name, std::int64_t columns) {
    return saved.matrix(name, columns, p.dtype());
  };
  if (p.n.width > 0) {
    down_weights(p, kept(Saved::down_gradient, p.n.hidden));
    up_weights(p, kept(Saved::normed2, p.n.hidden), kept(Saved::up, p.n.up()));
  }
  attended_weights(p, kept(Saved::attended_gradient, p.n.hidden));
  projected_weights(p, kept(Saved::normed1, p.n.hidden),
                    kept(Saved::projected, p.n.projected()));
}

}  // namespace ztplan
