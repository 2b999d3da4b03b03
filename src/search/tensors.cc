#include "search/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "strategy/engine_memory.h"
#include "strategy/stages.h"

namespace ztplan {
namespace {

constexpr std::int64_t kFp32 = 4;

class Lister {
 public:
  Lister(const Setting& setting, const Engine& engine, const Strategy& s)
      : setting_(setting),
        engine_(engine),
        s_(s),
        kinds_(layer_kinds(setting.model)),
        sizes_(stage_sizes(setting, engine, kinds_, s)),
        number_(activation_bytes(setting.workload.precision)),
        dtype_(number_ == kFp32 ? "fp32" : "16-bit"),
        sequence_(divide_up(setting.workload.sequence, s.context)) {}

  std::vector<Tensor> list() && {
    for (const Layer& kind : kinds_.kinds) list_layer(kind);
    list_logits();
    list_states();
    return std::move(tensors_);
  }

 private:
  void add(const char* name, std::string shape, std::int64_t bytes,
           Phase phase) {
    tensors_.push_back({name, std::move(shape), Bytes{bytes}, phase});
  }

  void list_layer(const Layer& layer) {
    const ModelSpec& model = setting_.model;
    const std::int64_t micro = s_.micro_batch;
    const std::int64_t heads = divide_up(layer.attention.heads, s_.tensor);
    const std::int64_t scores =
        micro * heads * sequence_ * setting_.workload.sequence;
    const auto shape = [&](const char* dtype) {
      return fmt::format("{} x {} x {} x {} {}", micro, heads, sequence_,
                         setting_.workload.sequence, dtype);
    };
    add("attention scores", shape("fp32"), kFp32 * scores, Phase::forward);
    add("attention scores", shape("16-bit"), 2 * scores, Phase::forward);
    const std::int64_t tokens = micro * sequence_;
    add("layer input", fmt::format("{} x {} {}", tokens, model.hidden, dtype_),
        number_ * tokens * model.hidden, Phase::forward);
    add("norm in fp32", fmt::format("{} x {} fp32", tokens, model.hidden),
        kFp32 * tokens * model.hidden, Phase::forward);
    const FeedForward& f = layer.ffn;
    const std::int64_t width =
        divide_up(f.is_moe() ? f.shared_width : f.width, s_.tensor);
    if (width > 0)
      add("MLP input", fmt::format("{} x {} {}", tokens, width, dtype_),
          number_ * tokens * width, Phase::forward);
    if (f.is_moe())
      add("expert input",
          fmt::format("{} x {} x {} {}", tokens, f.top_k, f.expert_width,
                      dtype_),
          number_ * tokens * f.top_k * f.expert_width, Phase::forward);
  }

  void list_logits() {
    const std::int64_t tokens = s_.micro_batch * sequence_;
    for (const std::int64_t vocab :
         {std::int64_t{setting_.model.vocab}, sizes_.vocab}) {
      const std::int64_t rows = divide_up(vocab, s_.tensor);
      add("logits in fp32", fmt::format("{} x {} fp32", tokens, rows),
          kFp32 * tokens * rows, Phase::loss);
      add("logits", fmt::format("{} x {} {}", tokens, rows, dtype_),
          number_ * tokens * rows, Phase::loss);
    }
  }

  void list_states() {
    const StateBytes bytes =
        state_bytes(setting_.workload, *engine_.memory, s_);
    const std::int64_t bucket =
        s_.tuning.bucket.value_or(engine_.bucket_elements);
    add("gradient bucket", fmt::format("{} {}", bucket, dtype_),
        number_ * bucket, Phase::backward);
    for (const StageShape& shape : stage_shapes(kinds_, s_)) {
      const StageShare share = stage_share(setting_, sizes_, shape);
      const std::int64_t owned = padded_shard(share.trained(), zero_group(s_));
      add("gathered layer", fmt::format("{} {}", share.largest_layer, dtype_),
          number_ * share.largest_layer, Phase::forward);
      add("embedding or output matrix",
          fmt::format("{} {}", share.largest_end, dtype_),
          number_ * share.largest_end, Phase::forward);
      add("weights", fmt::format("{} {}", share.total(), dtype_),
          number_ * share.total(), Phase::forward);
      add("gradients", fmt::format("{} elements", share.trained()),
          bytes.gradient * share.trained(), Phase::backward);
      add("gradient shard", fmt::format("{} elements", owned),
          bytes.gradient * owned, Phase::backward);
      add("master weights or one moment", fmt::format("{} fp32", owned),
          kFp32 * owned, Phase::step);
    }
  }

  const Setting& setting_;
  const Engine& engine_;
  const Strategy& s_;
  LayerKinds kinds_;
  StageSizes sizes_;
  std::int64_t number_;
  const char* dtype_;
  std::int64_t sequence_;
  std::vector<Tensor> tensors_;
};

std::int64_t distance(const Tensor& tensor, Bytes bytes) {
  return std::llabs(tensor.bytes.value - bytes.value);
}

}  // namespace

std::vector<Tensor> tensors_of(const Setting& setting, const Engine& engine,
                               const Strategy& strategy) {
  return Lister(setting, engine, strategy).list();
}

std::vector<Tensor> matching(const std::vector<Tensor>& tensors, Bytes bytes,
                             Bytes tolerance) {
  std::vector<Tensor> found;
  for (const Tensor& tensor : tensors) {
    if (distance(tensor, bytes) > tolerance.value) continue;
    const bool known = std::ranges::any_of(found, [&](const Tensor& other) {
      return other.name == tensor.name && other.bytes == tensor.bytes;
    });
    if (!known) found.push_back(tensor);
  }
  std::ranges::stable_sort(found, [&](const Tensor& a, const Tensor& b) {
    return distance(a, bytes) < distance(b, bytes);
  });
  return found;
}

}  // namespace ztplan
