#include "exec/stage_passes.h"

#include <algorithm>

#include "base/error.h"

namespace ztplan {

using namespace kernels;  // NOLINT: their names are this file's vocabulary

StagePasses::StagePasses(RankContext& context, const StageUnits& units,
                         const StageStates& states,
                         const PipelinePeers& pipeline,
                         std::int64_t padded_vocab)
    : context_(context),
      units_(units),
      states_(states),
      pipeline_(pipeline),
      ends_(context, padded_vocab),
      padded_vocab_(padded_vocab),
      sizes_(native_sizes(context.model, Layer{}, context.workload,
                          context.strategy)) {
  for (int i = 0; i < context.strategy.virtual_stages; ++i)
    layouts_.push_back(native_pass(context.model, context.workload,
                                   context.strategy, pipeline.front().rank(),
                                   i));
  const auto buffer = [&](Bytes bytes) {
    return context.device.allocate(Tier::device, Term::buffers, bytes);
  };
  workspace_ = buffer(
      native_workspace(context.model, context.workload, context.strategy));
  const Bytes boundary{sizes_.stream * sizes_.hidden * sizes_.number};
  gradient_ = buffer(boundary);
  output_ = buffer(boundary);
  total_loss_ = reinterpret_cast<double*>(buffer(kNativeTotals));
}

StagePasses::~StagePasses() {
  for (std::byte* data : {workspace_, gradient_, output_,
                          reinterpret_cast<std::byte*>(total_loss_)})
    context_.device.release(data);
}

void StagePasses::begin_step(TokenFeed feed, float loss_scale) {
  require(passes_.empty(), "every pass of the last step is over");
  feed_ = std::move(feed);
  loss_scale_ = loss_scale;
  constexpr std::int64_t kWords = kNativeTotals.value / 4;
  context_.device.launch(
      Lane::compute,
      Fill{{reinterpret_cast<std::byte*>(total_loss_), kWords, Precision::fp32},
           0});
}

const std::vector<Unit>& StagePasses::chunk(const PassKey& key) const {
  return units_.chunks[static_cast<std::size_t>(key.chunk)];
}

int StagePasses::virtual_stage(const PassKey& key) const {
  return ztplan::virtual_stage(context_.strategy, pipeline_.front().rank(),
                               key.chunk);
}

int StagePasses::neighbour(const PassKey& key, int places) const {
  return stage_of(context_.strategy, virtual_stage(key) + places);
}

const Peers& StagePasses::channel(const PassKey& key, int places) const {
  const int chunk = (virtual_stage(key) + places) / context_.strategy.pipeline;
  return pipeline_[static_cast<std::size_t>(chunk)];
}

int StagePasses::last_virtual_stage() const {
  return context_.strategy.pipeline * context_.strategy.virtual_stages - 1;
}

Matrix StagePasses::stream(std::byte* data) const {
  return {data, sizes_.stream, sizes_.hidden, sizes_.hidden, context_.dtype()};
}

Array StagePasses::wide() const {
  return {workspace_, sizes_.tokens * sizes_.hidden, context_.dtype()};
}

/// Frames of all layers of the chunk in one block: token ids first.
void StagePasses::lay_out(OpenPass& open, const PassKey& key) {
  const NativePass& layout = layouts_[static_cast<std::size_t>(key.chunk)];
  open.block =
      context_.device.allocate(Tier::device, Term::activations, layout.total());
  open.ids = {reinterpret_cast<std::int32_t*>(open.block),
              layout.has_tokens ? sizes_.tokens : 0};
  std::size_t layer = 0;
  for (const Unit& unit : chunk(key)) {
    if (unit.kind != UnitKind::layer) {
      open.layers.emplace_back();
      open.is_rebuilt.push_back(false);
      continue;
    }
    const NativePass::LayerPlace& place = layout.layers[layer++];
    open.layers.emplace_back(place.frame, open.block + place.offset.value);
    open.is_rebuilt.push_back(place.is_rebuilt);
  }
}

void StagePasses::open_forward(const PassKey& key) {
  OpenPass open;
  lay_out(open, key);
  const std::size_t first =
      chunk(key).front().kind == UnitKind::embedding ? 1 : 0;
  std::byte* const input = input_of(open, first).data;
  passes_.emplace(key, std::move(open));
  if (virtual_stage(key) > 0) receive(key, true, input);
  in_output_ = key;
}

void StagePasses::open_backward(const PassKey& key) {
  if (virtual_stage(key) < last_virtual_stage()) receive(key, false, gradient_);
  in_gradient_ = key;
}

void StagePasses::close_backward(const PassKey& key) {
  context_.device.release(pass(key).block);
  passes_.erase(key);
}

void StagePasses::receive(const PassKey& key, bool forward, std::byte* into) {
  const int places = forward ? -1 : 1;
  const int from = neighbour(key, places);
  if (from == pipeline_.front().rank()) return turn(key, forward, into);
  channel(key, places).receive(Lane::compute, from, as_array(stream(into)));
}

/// Where a V turns, the pass before this one was the chunk's next to it.
void StagePasses::turn(const PassKey& key, bool forward,
                       std::byte* into) const {
  const PassKey& before = forward ? in_output_ : in_gradient_;
  require(before ==
              PassKey{forward ? key.chunk - 1 : key.chunk + 1, key.micro_batch},
          "rows wait for the chunk after theirs");
  if (forward)
    context_.device.launch(Lane::compute, Copy{stream(output_), stream(into)});
}

void StagePasses::send_forward(Lane lane, const PassKey& key) {
  const Matrix from = stream(output_);
  channel(key, 0).send(lane, neighbour(key, 1), as_array(from));
}

void StagePasses::send_backward(Lane lane, const PassKey& key) {
  const Matrix from = stream(gradient_);
  channel(key, 0).send(lane, neighbour(key, -1), as_array(from));
}

Matrix StagePasses::input_of(const OpenPass& open, std::size_t unit) const {
  return open.layers[unit].matrix(Saved::input, sizes_.hidden,
                                  context_.dtype());
}

/// Where the unit's rows go: into the next layer's frame, the head's, or to
/// another stage.
Matrix StagePasses::output_of(OpenPass& open, const PassKey& key,
                              std::size_t unit) {
  const std::vector<Unit>& all = chunk(key);
  if (unit + 1 == all.size()) return stream(output_);
  if (all[unit + 1].kind == UnitKind::layer) return input_of(open, unit + 1);
  open_head(open);
  return head_block(open).matrix(HeadSaved::input, sizes_.hidden,
                                 context_.dtype());
}

HeadBlock StagePasses::head_block(const OpenPass& open) const {
  return {head_frame(context_.model, context_.workload, context_.strategy),
          open.head};
}

void StagePasses::open_head(OpenPass& open) {
  Device& device = context_.device;
  open.head = device.allocate(
      Tier::device, Term::activations,
      head_frame(context_.model, context_.workload, context_.strategy).total());
  open.logits = device.allocate(Tier::device, Term::logits,
                                logits_bytes(context_.model, context_.workload,
                                             context_.strategy, padded_vocab_));
}

void StagePasses::upload(const std::vector<std::int32_t>& values,
                         const Indices& to) const {
  require(static_cast<std::int64_t>(values.size()) == to.size,
          "a micro-batch has the tokens of its rank");
  context_.device.copy(Lane::compute, reinterpret_cast<std::byte*>(to.data),
                       reinterpret_cast<const std::byte*>(values.data()),
                       Bytes{to.size * 4});
  context_.device.synchronize();
}

void StagePasses::forward(const PassKey& key, std::size_t unit, int slot) {
  OpenPass& open = pass(key);
  const Unit& of = chunk(key)[unit];
  switch (of.kind) {
    case UnitKind::embedding:
      upload(feed_(key.micro_batch).tokens, open.ids);
      return ends_.embed(states_.end_weights(of, slot), open.ids, wide(),
                         output_of(open, key, unit));
    case UnitKind::layer:
      return forward_layer(open, key, unit, slot);
    case UnitKind::head:
      return forward_head(open, key, of, slot);
  }
}

void StagePasses::backward(const PassKey& key, std::size_t unit,
                           int weights_slot, int gradients_slot) {
  OpenPass& open = pass(key);
  const Unit& of = chunk(key)[unit];
  switch (of.kind) {
    case UnitKind::embedding:
      return ends_.embed_backward(states_.end_gradients(of, gradients_slot),
                                  open.ids, wide(), stream(gradient_));
    case UnitKind::layer:
      return backward_layer(open, key, unit, weights_slot, gradients_slot);
    case UnitKind::head:
      return backward_head(open, of, weights_slot, gradients_slot);
  }
}

void StagePasses::backward_weights(const PassKey& key, std::size_t unit,
                                   int gradients_slot) {
  const Unit& of = chunk(key)[unit];
  if (of.kind != UnitKind::layer) return;  // done with their inputs'
  const ScratchFrame frame = backward_scratch(
      context_.model, of.layer->layer(), context_.workload, context_.strategy);
  of.layer->backward_weights(states_.layer_gradients(of, gradients_slot),
                             pass(key).layers[unit], scratch(frame, false, of));
}

/// The frame that a checkpointed layer is computed in: in the workspace, all
/// but its input.
SavedBlock StagePasses::rebuilt(const OpenPass& open, const PassKey& key,
                                std::size_t unit) const {
  const SavedFrame frame =
      saved_frame(context_.model, chunk(key)[unit].layer->layer(),
                  context_.workload, context_.strategy);
  return SavedBlock(frame, workspace_)
      .with(Saved::input, input_of(open, unit).data);
}

ScratchBlock StagePasses::scratch(const ScratchFrame& frame, bool is_rebuilding,
                                  const Unit& unit) const {
  const Bytes before = is_rebuilding
                           ? saved_frame(context_.model, unit.layer->layer(),
                                         context_.workload, context_.strategy)
                                 .total()
                           : Bytes{};
  return {frame, workspace_ + before.value};
}

void StagePasses::forward_layer(OpenPass& open, const PassKey& key,
                                std::size_t unit, int slot) {
  const Unit& of = chunk(key)[unit];
  const bool again = open.is_rebuilt[unit];
  const ScratchFrame frame = forward_scratch(
      context_.model, of.layer->layer(), context_.workload, context_.strategy);
  of.layer->forward(states_.layer_weights(of, slot),
                    again ? rebuilt(open, key, unit) : open.layers[unit],
                    scratch(frame, again, of), output_of(open, key, unit));
}

void StagePasses::backward_layer(const OpenPass& open, const PassKey& key,
                                 std::size_t unit, int weights_slot,
                                 int gradients_slot) {
  const Unit& of = chunk(key)[unit];
  const bool again = open.is_rebuilt[unit];
  const UnitArrays weights = states_.layer_weights(of, weights_slot);
  SavedBlock saved = open.layers[unit];
  if (again) {
    saved = rebuilt(open, key, unit);
    const ScratchFrame frame =
        forward_scratch(context_.model, of.layer->layer(), context_.workload,
                        context_.strategy);
    // Its rows are known: they go where nothing is kept.
    std::byte* const nowhere =
        workspace_ + native_nowhere(context_.model, of.layer->layer(),
                                    context_.workload, context_.strategy)
                         .value;
    of.layer->forward(weights, saved, scratch(frame, true, of),
                      stream(nowhere));
  }
  const ScratchFrame frame = backward_scratch(
      context_.model, of.layer->layer(), context_.workload, context_.strategy);
  of.layer->backward(weights, states_.layer_gradients(of, gradients_slot),
                     saved, scratch(frame, again, of), stream(gradient_));
}

void StagePasses::forward_head(OpenPass& open, const PassKey& key,
                               const Unit& unit, int slot) {
  const HeadBlock saved = head_block(open);
  upload(feed_(key.micro_batch).targets, saved.indices(HeadSaved::targets));
  const std::int64_t columns = padded_vocab_ / context_.strategy.tensor;
  ends_.loss(states_.end_weights(unit, slot), saved,
             {open.logits, sizes_.tokens, columns, columns, context_.dtype()},
             wide(), total_loss_);
}

void StagePasses::backward_head(OpenPass& open, const Unit& unit,
                                int weights_slot, int gradients_slot) {
  const std::int64_t columns = padded_vocab_ / context_.strategy.tensor;
  ends_.loss_backward(
      states_.end_weights(unit, weights_slot),
      states_.end_gradients(unit, gradients_slot), head_block(open),
      {open.logits, sizes_.tokens, columns, columns, context_.dtype()}, wide(),
      loss_scale_, stream(gradient_));
  context_.device.release(open.head);
  context_.device.release(open.logits);
  open.head = open.logits = nullptr;
}

}  // namespace ztplan
