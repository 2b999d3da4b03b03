#include "strategy/native_stage.h"

#include <algorithm>

#include "base/error.h"
#include "strategy/layout.h"
#include "strategy/recomputed.h"

namespace ztplan {
namespace {

constexpr std::int64_t kAlignment = 64;  // bytes, as in a frame

SavedFrame checkpoint(const ModelSpec& model, const Layer& layer,
                      const Workload& workload, const Strategy& strategy) {
  SavedFrame frame;
  const NativeSizes n = native_sizes(model, layer, workload, strategy);
  frame.hold(Saved::input, n.stream * n.hidden * n.number);
  return frame;
}

Bytes larger_scratch(const ModelSpec& model, const Layer& layer,
                     const Workload& w, const Strategy& s) {
  return std::max(forward_scratch(model, layer, w, s).total(),
                  backward_scratch(model, layer, w, s).total());
}

}  // namespace

NativePass native_pass(const ModelSpec& model, const Workload& w,
                       const Strategy& s, int stage, int chunk) {
  const LayerKinds kinds = layer_kinds(model);
  const ChunkShape shape =
      stage_shapes(kinds, s)[static_cast<std::size_t>(stage)]
          .chunks[static_cast<std::size_t>(chunk)];
  const std::vector<int> layers = chunk_layers(layer_count(model), s);
  const int u = virtual_stage(s, stage, chunk);
  const int number = first_layer(layers, u);
  NativePass pass;
  pass.has_tokens = shape.has_embedding;
  if (pass.has_tokens)
    pass.end = {round_up(token_bytes(w, s).value, kAlignment)};
  const int rebuilt = recomputed_layers(s, shape);
  for (int i = 0; i < layers[static_cast<std::size_t>(u)]; ++i) {
    const auto at =
        static_cast<std::size_t>(number) + static_cast<std::size_t>(i);
    const auto kind = static_cast<std::size_t>(kinds.kind_of_layer[at]);
    const Layer& layer = kinds.kinds[kind];
    const bool again = i < rebuilt;
    const SavedFrame frame = again ? checkpoint(model, layer, w, s)
                                   : saved_frame(model, layer, w, s);
    pass.layers.push_back({frame, pass.end, again});
    pass.end += frame.total();
  }
  return pass;
}

LayerActivations native_activations(const ModelSpec& model, const Layer& layer,
                                    const Workload& w, const Strategy& s) {
  const SavedFrame frame = saved_frame(model, layer, w, s);
  LayerActivations bytes;
  bytes.saved = bytes.pending = frame.total();
  bytes.checkpoint = checkpoint(model, layer, w, s).total();
  bytes.attention_scores = {frame.bytes(Saved::scores)};
  bytes.widest = {
      std::max(frame.bytes(Saved::up), frame.bytes(Saved::expert_up))};
  return bytes;
}

EndActivations native_ends(const ModelSpec& model, const Workload& w,
                           const Strategy& s, std::int64_t padded_vocab) {
  EndActivations bytes;
  bytes.embedding =
      bytes.embedding_pending = {round_up(token_bytes(w, s).value, kAlignment)};
  bytes.head = head_frame(model, w, s).total();
  bytes.logits = bytes.loss_saved = logits_bytes(model, w, s, padded_vocab);
  bytes.fp32_logits = bytes.logits;
  return bytes;
}

Bytes native_nowhere(const ModelSpec& model, const Layer& layer,
                     const Workload& w, const Strategy& s) {
  return saved_frame(model, layer, w, s).total() +
         larger_scratch(model, layer, w, s);
}

Bytes native_workspace(const ModelSpec& model, const Workload& w,
                       const Strategy& s) {
  Bytes most = end_scratch(model, w, s);
  for (const LayerGroup& group : model.layers) {
    const NativeSizes n = native_sizes(model, group.layer, w, s);
    const Bytes stream{round_up(n.stream * n.hidden * n.number, kAlignment)};
    const Bytes needs = recomputes_layers(s)
                            ? native_nowhere(model, group.layer, w, s) + stream
                            : larger_scratch(model, group.layer, w, s);
    most = std::max(most, needs);
  }
  return {round_up(most.value, kAlignment)};
}

Bytes native_positions(const Workload& w, const Strategy& s) {
  constexpr std::int64_t kIndex = 4;
  const std::int64_t others = s.context > 1 ? w.sequence : 0;
  return {token_bytes(w, s).value + kIndex * others};
}

Bytes native_topk(const Strategy& s, std::int64_t dense, std::int64_t experts) {
  constexpr std::int64_t kSent = 8;
  return Bytes{
      kSent * std::max(topk_count(s, dense) * gradient_group(s).size,
                       topk_count(s, experts) * expert_gradient_group(s).size)};
}

std::int64_t offload_slice(std::int64_t size) {
  constexpr std::int64_t kBlock = 2048;
  return round_up(divide_up(size, kOffloadSlices), kBlock);
}

}  // namespace ztplan
