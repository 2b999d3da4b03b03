// Forward and backward of micro-batches through one stage: the frames they
// leave, the stream between layers and what crosses to other stages.
#pragma once

#include <functional>
#include <map>

#include "exec/stage_states.h"
#include "strategy/native_stage.h"

namespace ztplan {

/// Tokens of this rank's part of a micro-batch, and the token after each:
/// [tokens] both.
struct TokenBatch {
  std::vector<std::int32_t> tokens, targets;
};
using TokenFeed = std::function<TokenBatch(int micro_batch)>;

/// A chunk of one micro-batch.
struct PassKey {
  int chunk = 0, micro_batch = 0;
  auto operator<=>(const PassKey&) const = default;
};

/// The stages of a rank's place, by the chunk that a message comes from: two
/// stages of a V send one another rows of one chunk and gradients of the other,
/// in no common order.
using PipelinePeers = std::vector<Peers>;

class StagePasses {
 public:
  /// All arguments outlive this.
  StagePasses(RankContext& context, const StageUnits& units,
              const StageStates& states, const PipelinePeers& pipeline,
              std::int64_t padded_vocab);
  ~StagePasses();
  StagePasses(const StagePasses&) = delete;
  StagePasses& operator=(const StagePasses&) = delete;

  void begin_step(TokenFeed feed, float loss_scale);

  /// Memory of a pass; its input, where another stage has it.
  void open_forward(const PassKey& key);
  void open_backward(const PassKey& key);
  void forward(const PassKey& key, std::size_t unit, int slot);
  void backward(const PassKey& key, std::size_t unit, int weights_slot,
                int gradients_slot);
  /// What backward left of the unit's weights, where the schedule splits it:
  /// `close_backward` comes after this.
  void backward_weights(const PassKey& key, std::size_t unit,
                        int gradients_slot);
  void close_backward(const PassKey& key);
  /// Output of a forward, or gradient of the input of a backward, to the stage
  /// that waits for it.
  void send_forward(Lane lane, const PassKey& key);
  void send_backward(Lane lane, const PassKey& key);

  /// On the device: the sum of the losses of this rank's tokens in this step,
  /// and beside it room for the sum of squares of its gradients and for the
  /// balance of its experts.
  double* total_loss() const { return total_loss_; }

 private:
  struct OpenPass {
    std::byte* block = nullptr;
    Indices ids;
    std::vector<SavedBlock> layers;  // by unit; ends have none
    std::vector<bool> is_rebuilt;    // by unit
    std::byte *head = nullptr, *logits = nullptr;
  };
  const std::vector<Unit>& chunk(const PassKey& key) const;
  int virtual_stage(const PassKey& key) const;
  int last_virtual_stage() const;
  /// The stage of the chunk that many places after this pass's.
  int neighbour(const PassKey& key, int places) const;
  /// What that chunk sends through.
  const Peers& channel(const PassKey& key, int places) const;
  void turn(const PassKey& key, bool forward, std::byte* into) const;
  OpenPass& pass(const PassKey& key) { return passes_.at(key); }
  const Layer& layer_of(const Unit& unit) const;

  void lay_out(OpenPass& pass, const PassKey& key);
  Matrix input_of(const OpenPass& pass, std::size_t unit) const;
  Matrix output_of(OpenPass& pass, const PassKey& key, std::size_t unit);
  HeadBlock head_block(const OpenPass& pass) const;
  void open_head(OpenPass& pass);
  void forward_layer(OpenPass& pass, const PassKey& key, std::size_t unit,
                     int slot);
  void backward_layer(const OpenPass& pass, const PassKey& key,
                      std::size_t unit, int weights_slot, int gradients_slot);
  void forward_head(OpenPass& pass, const PassKey& key, const Unit& unit,
                    int slot);
  void backward_head(OpenPass& pass, const Unit& unit, int weights_slot,
                     int gradients_slot);
  SavedBlock rebuilt(const OpenPass& pass, const PassKey& key,
                     std::size_t unit) const;
  ScratchBlock scratch(const ScratchFrame& frame, bool is_rebuilding,
                       const Unit& unit) const;
  Array wide() const;
  Matrix stream(std::byte* data) const;
  void upload(const std::vector<std::int32_t>& values, const Indices& to) const;
  void receive(const PassKey& key, bool forward, std::byte* into);

  RankContext& context_;
  const StageUnits& units_;
  const StageStates& states_;
  const PipelinePeers& pipeline_;
  NativeEnds ends_;
  std::int64_t padded_vocab_;
  NativeSizes sizes_;
  std::vector<NativePass> layouts_;  // by chunk
  std::byte* workspace_ = nullptr;
  std::byte *gradient_ = nullptr, *output_ = nullptr;  // [stream, hidden]
  PassKey in_gradient_, in_output_;                    // what wrote them last
  double* total_loss_ = nullptr;
  std::map<PassKey, OpenPass> passes_;
  TokenFeed feed_;
  float loss_scale_ = 1;
};

}  // namespace ztplan
