// One transformer layer on one rank: forward, and its gradient written out.
// Tensor ranks cut heads and the MLP's width (Megatron-LM, arXiv 1909.08053),
// and the stream between them with sequence parallelism (arXiv 2205.05198);
// context ranks cut sequences (ring attention, arXiv 2310.01889, or Ulysses,
// arXiv 2309.14509); expert ranks hold experts of their own.
#pragma once

#include "exec/device.h"
#include "exec/frame_block.h"
#include "exec/parameters.h"
#include "exec/peers.h"

namespace ztplan {

/// What all layers of one rank share. Lives as long as they.
struct RankContext {
  Device& device;
  const ModelSpec& model;
  const Workload& workload;
  const Strategy& strategy;
  Tally tally{};
  CallSeconds call_seconds{};
  Peers tensor{}, context{}, expert{};
  Position position{};
  std::string offload_folder{};  // of files that stand for memory
  /// Positions of this rank's tokens [tokens]; of one of its sequences, and of
  /// one sequence of every context rank in turn; of a whole sequence.
  Indices token_positions{}, own_positions{};
  std::vector<Indices> ring_positions{};
  Indices whole_positions{};
  /// Of the balance loss (arXiv 2101.03961), per micro-batch, times what the
  /// loss is scaled by.
  float balance = 0;
  /// Where its mean over the step's passes through expert layers is added up,
  /// and the share of one pass through one of them.
  double* balance_sum = nullptr;
  double balance_share = 0;
  Precision dtype() const { return workload.precision; }
  /// Whether tensor ranks have a part of the stream's rows each.
  bool cuts_stream() const {
    return strategy.sequence_parallel && tensor.size() > 1;
  }
};

/// A unit's flat buffers: weights in the activations' dtype, or gradients in
/// that of gradients.
struct UnitArrays {
  Array dense, experts;
};

class NativeLayer {
 public:
  /// Layer `number` of the model. `context` outlives this.
  NativeLayer(const RankContext& context, const Layer& layer, int number);

  const Layer& layer() const { return layer_; }
  const LayerFlats& flats() const { return flats_; }

  /// From `saved.input` [stream, hidden] to `out`, of the same shape.
  void forward(const UnitArrays& weights, const SavedBlock& saved,
               const ScratchBlock& scratch, const Matrix& out) const;
  /// `stream` is the gradient of the layer's output and becomes that of its
  /// input. Gradients of weights are added to. Overwrites what was saved.
  void backward(const UnitArrays& weights, const UnitArrays& gradients,
                const SavedBlock& saved, const ScratchBlock& scratch,
                const Matrix& stream) const;
  /// Where the schedule splits backward, that one leaves out the gradients of
  /// the weights of dense products, and `saved` keeps what they are made of:
  /// this adds them.
  void backward_weights(const UnitArrays& gradients, const SavedBlock& saved,
                        const ScratchBlock& scratch) const;

 private:
  const RankContext& context_;
  const Layer& layer_;
  LayerFlats flats_;
  NativeSizes sizes_;
};

}  // namespace ztplan
