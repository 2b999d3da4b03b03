// The ends of the model on one rank: embedding, and final norm with output
// matrix and loss. Tensor ranks cut the vocabulary (Megatron-LM, arXiv
// 1909.08053, section 3).
#pragma once

#include "exec/native_layer.h"

namespace ztplan {

/// Weights or gradients of an end.
struct EndArrays {
  Array table;            // [vocab / tensor, hidden]
  Array positions;        // [position_rows, hidden], or empty
  Array norm, norm_bias;  // of the final norm; empty where it has none
};

class NativeEnds {
 public:
  NativeEnds(const RankContext& context, std::int64_t padded_vocab);

  /// Token ids [tokens] to `stream` [stream, hidden]. `wide` [tokens, hidden].
  void embed(const EndArrays& weights, const Indices& ids, const Array& wide,
             const Matrix& stream) const;
  void embed_backward(const EndArrays& gradients, const Indices& ids,
                      const Array& wide, const Matrix& stream) const;

  /// From `saved.input`: adds the sum of the tokens' losses to `total`.
  void loss(const EndArrays& weights, const HeadBlock& saved,
            const Matrix& logits, const Array& wide, double* total) const;
  /// Writes the gradient of `saved.input` to `stream`; each token's loss counts
  /// `scale`. Logits become their gradient.
  void loss_backward(const EndArrays& weights, const EndArrays& gradients,
                     const HeadBlock& saved, const Matrix& logits,
                     const Array& wide, float scale,
                     const Matrix& stream) const;

 private:
  void launch(const Kernel& kernel) const;
  Array own_rows(const Array& wide) const;
  Matrix gathered(const Matrix& stream, const Array& wide) const;
  Indices own_positions(const Matrix& stream) const;

  const RankContext& context_;
  std::int64_t rows_, first_;  // of the vocabulary, here
};

}  // namespace ztplan
