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
  Pace embedding_forward, embedding_backward;
  Pace head_forward, head_backward;
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
  /// Least seconds from the first forward to the last backward of stage 0.
  Seconds passes;
  /// Of them the last, the backward of stage 0's first chunk.
  Seconds last_backward;
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
  Seconds passes(const Strategy& strategy, const Frame& frame);
  Seconds sends_beside(const Strategy& strategy, Seconds send) const;

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
