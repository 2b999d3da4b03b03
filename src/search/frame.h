// What candidates that cut a layer alike share: sizes, shapes and prices. The
// inner loops of the search (ZeRO, shard group, offload) only read it.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "search/question.h"
#include "step/segment.h"
#include "time/price.h"

namespace ztplan {

/// Seconds on the device and launches that the host must keep up with.
struct Pace {
  Seconds work;
  std::int64_t launches = 0;
};

/// One micro-batch through one layer of each kind, and through the ends.
struct LayerPaces {
  std::vector<Pace> forward, kept, rebuilt;  // by kind; the last two backward
  std::vector<Pace> kept_inputs, rebuilt_inputs;  // of them, split
  Pace embedding_forward, embedding_backward;
  Pace head_forward, head_backward, head_inputs;
};

/// One way to cut a layer.
struct LayerCut {
  StageSizes sizes;
  LayerPaces paces;
};

/// Everything about a strategy but ZeRO, shard group and offload.
struct Frame {
  const LayerCut* cut = nullptr;
  const std::vector<StageShape>* shapes = nullptr;
  std::vector<StageBase> stages;  // those that can be the fullest
  Bytes least_peak;               // device bytes of their passes alone
  int micro_batches = 0;
  /// Least seconds from the first forward to the last pass of any stage, and of
  /// stage 0.
  Seconds passes, first_stage;
  /// Of the latter the last: the backward of stage 0's first chunk, or what of
  /// it is for weights.
  Seconds last_gradients;
};

class FrameCache {
 public:
  FrameCache(const Question& question, const LayerKinds& kinds);

  /// The frame of a legal strategy under `engine`; valid until the next call.
  const Frame& frame(const Engine& engine, const Strategy& strategy);

  const Setting& setting() const { return setting_; }
  const Machine& machine() const { return machine_; }
  const LayerKinds& kinds() const { return kinds_; }
  Seconds price(const Collective& collective);

 private:
  const LayerCut& cut(const Engine& engine, const Strategy& strategy);
  const std::vector<StageShape>& shapes(const Strategy& strategy);
  void bound_passes(const Strategy& strategy);

  Setting setting_;
  Machine machine_;
  const LayerKinds& kinds_;
  std::map<std::pair<const Engine*, Strategy>, std::unique_ptr<LayerCut>> cuts_;
  std::map<Strategy, std::vector<StageShape>> shapes_;
  std::map<Collective, Seconds> prices_;
  Frame frame_;
  Strategy framed_;
  const Engine* framed_engine_ = nullptr;
};

}  // namespace ztplan
