// Writes the works of tensor-parallel linear layers and of passes over memory
// into a recipe: the vocabulary that layer_work and end_work speak.
#pragma once

#include "step/recipe.h"
#include "strategy/engine.h"
#include "strategy/layer_memory.h"

namespace ztplan {

/// Where the ranks of a tensor group cut a linear layer. Column: outputs are
/// cut, the input is whole. Row: inputs are cut, outputs must be summed.
enum class Cut { none, column, row };

/// y[rows, outputs] = x[rows, inputs] W, sizes of one device. `whole` is the
/// width of the uncut side, which collectives carry.
struct Linear {
  std::int64_t rows = 0, outputs = 0, inputs = 0;
  std::int64_t batch = 1;  // experts side by side
  Cut cut = Cut::none;
  std::int64_t whole = 0;
  bool routed = false;  // rows of experts
  bool wide = false;    // in 16 bits where other products are narrower
};

class WorkWriter {
 public:
  WorkWriter(const Setting& setting, const Strategy& strategy);

  /// Tokens of one micro-batch on one device: whole, and where sequence
  /// parallelism cuts them.
  std::int64_t tokens() const { return tokens_; }
  std::int64_t cut_tokens() const { return cut_tokens_; }
  const Strategy& strategy() const { return strategy_; }
  const Workload& workload() const { return workload_; }
  /// Bytes of an activation element.
  int width() const { return width_; }

  void forward(const Linear& linear);
  /// Input gradient, weight gradient, and the collectives beside them.
  void backward(const Linear& linear);
  /// A pass of fused bytes over `elements` activations, or of `bytes_each` for
  /// 16-bit ones (read and written together).
  void pass(Operation what, std::int64_t elements);
  void pass(Operation what, std::int64_t elements, int bytes_each);
  /// The low-rank products beside frozen ones, `rows` of each of `experts`.
  void adapt(Direction direction, const std::vector<Adapted>& adapted,
             std::int64_t rows, std::int64_t experts);
  /// Quantized weights are written out in 16 bits for the product that follows.
  void dequantize(std::int64_t weights);
  void attention(const AttentionWork& work, std::int64_t count);
  void collective(TimeTerm term, CollectiveOp op, const Group& group,
                  Bytes bytes, std::int64_t count, int beside);
  void launches(std::int64_t kernels) { recipe_.kernels += kernels; }
  /// What follows is (or is not) recomputation.
  void recompute(bool again) { again_ = again; }
  /// What follows is (or is not) for the gradients of weights alone.
  void weights(bool weights) { weights_ = weights; }

  Recipe take(std::string name) &&;

 private:
  void add(TimeTerm term, const Work& work, std::int64_t count, int beside);
  void matmul(std::int64_t m, std::int64_t n, std::int64_t k,
              std::int64_t batch, bool wide);
  void cast(const Linear& linear, std::int64_t width);
  void tensor(CollectiveOp op, std::int64_t width, int beside);
  void adapt_forward(const Adapted& adapted, std::int64_t rows,
                     std::int64_t experts);
  void adapt_backward(const Adapted& adapted, std::int64_t rows,
                      std::int64_t experts);

  const Strategy& strategy_;
  const Workload& workload_;
  std::int64_t tokens_, cut_tokens_;
  int width_;
  bool again_ = false, weights_ = false;
  Recipe recipe_;
};

}  // namespace ztplan
