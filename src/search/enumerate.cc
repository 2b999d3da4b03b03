#include "search/enumerate.h"

#include <algorithm>

#include "search/evaluate.h"
#include "strategy/engine_memory.h"
#include "strategy/stages.h"

namespace ztplan {
namespace {

constexpr int kLeastContextTokens = 1024;
constexpr int kMostMicroBatchTokens = 16384;
constexpr int kMostChunks = 12;

std::vector<int> divisors(int n, int most) {
  std::vector<int> found;
  for (int d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) found.push_back(d);
  return found;
}

/// The user's list where there is one, else `usual`.
template <class Value>
std::vector<Value> choose(const std::vector<Value>& asked,
                          const std::vector<Value>& usual) {
  return asked.empty() ? usual : asked;
}

bool allows(const std::vector<int>& asked, int value) {
  return asked.empty() ||
         std::find(asked.begin(), asked.end(), value) != asked.end();
}

int most_heads(const ModelSpec& model) {
  int most = 1;
  for (const LayerGroup& group : model.layers)
    most = std::max(most, group.layer.attention.heads);
  return most;
}

int most_experts(const ModelSpec& model) {
  int most = 1;
  for (const LayerGroup& group : model.layers)
    most = std::max(most, group.layer.ffn.experts);
  return most;
}

std::vector<int> powers_of_two(int most) {
  std::vector<int> powers;
  for (int power = 1; power <= most; power *= 2) powers.push_back(power);
  return powers;
}

Recompute selective(bool attention, bool norms, bool activation) {
  Recompute r;
  r.mode = Recompute::Mode::selective;
  r.attention = attention;
  r.norms = norms;
  r.activation = activation;
  return r;
}

Recompute full(int layers) {
  Recompute r;
  r.mode = Recompute::Mode::full;
  r.layers = layers;
  return r;
}

/// Cheapest first. Flash attention keeps no scores that selective
/// recomputation could drop; norms and activations come first there.
std::vector<Recompute> usual_recomputations(const Question& question,
                                            int layers_of_chunk) {
  const bool eager = question.workload.attention == AttentionKernel::eager;
  std::vector<Recompute> all = {
      {},
      eager ? selective(true, false, false) : selective(false, true, false),
      selective(eager, true, true),
  };
  const std::string_view engine = question.engines.front()->name;
  if (engine == "fsdp")  // torchtitan's own kind of selective
    all.push_back({.mode = Recompute::Mode::selective, .op = true});
  if (layers_of_chunk >= 2) all.push_back(full(layers_of_chunk / 2));
  all.push_back(full(0));
  return all;
}

std::vector<Offload> usual_offloads(const ClusterSpec& cluster, int zero) {
  using enum OffloadTier;
  std::vector<Offload> all = {{none, none}, {cpu, none}};
  if (zero == 3) all.push_back({cpu, cpu});
  if (cluster.host.nvme.value == 0) return all;
  all.push_back({nvme, none});
  if (zero == 3) all.push_back({nvme, nvme});
  return all;
}

/// Layers of each stage when embedding and head weigh a layer each: the ends
/// hold one fewer where that evens out.
std::vector<int> nearly_even(int layers, int stages) {
  std::vector<int> split(static_cast<std::size_t>(stages));
  const int weight = layers + 2;
  for (int i = 0; i < stages; ++i)
    split[static_cast<std::size_t>(i)] =
        weight * (i + 1) / stages - weight * i / stages;
  --split.front();
  --split.back();
  return split;
}

/// Loops over one dimension after another; each level fixes one field.
class Enumeration {
 public:
  Enumeration(const Question& question,
              const std::function<void(const Strategy&)>& visit)
      : q_(question),
        visit_(visit),
        layers_(layer_count(question.model)),
        devices_(question.cluster.devices) {}

  void run() {
    for (const int t :
         choose(q_.limits.tensor, divisors(devices_, most_heads(q_.model)))) {
      s_.tensor = t;
      pipelines();
    }
  }

 private:
  void pipelines() {
    for (const int p :
         choose(q_.limits.pipeline, divisors(devices_, layers_ + 2))) {
      s_.pipeline = p;
      contexts();
    }
  }

  void contexts() {
    const int most = std::max(1, q_.workload.sequence / kLeastContextTokens);
    for (const int c : choose(q_.limits.context, divisors(devices_, most))) {
      s_.context = c;
      const std::int64_t used =
          static_cast<std::int64_t>(s_.tensor) * s_.pipeline * c;
      if (used < 1 || devices_ % used != 0) continue;
      s_.data = static_cast<int>(devices_ / used);
      if (!allows(q_.limits.data, s_.data)) continue;
      context_kinds();
    }
  }

  void context_kinds() {
    for (const auto kind : {ContextKind::ring, ContextKind::ulysses}) {
      if (s_.context == 1 && kind == ContextKind::ulysses) continue;
      s_.context_kind = kind;
      experts();
    }
  }

  void experts() {
    const int ranks = s_.tensor * s_.context * s_.data;
    for (const int e :
         choose(q_.limits.expert, divisors(ranks, most_experts(q_.model)))) {
      s_.expert = e;
      expert_tensors();
    }
  }

  void expert_tensors() {
    for (const int e : choose(q_.limits.expert_tensor, {1})) {
      s_.expert_tensor = e;
      sequence_parallelism();
    }
  }

  void sequence_parallelism() {
    for (const bool sp : {false, true}) {
      if (sp && s_.tensor == 1) continue;
      s_.sequence_parallel = sp;
      chunks();
    }
  }

  /// Stages that hold equal layers; else equal ones with the ends counted as
  /// layers; else, in one chunk each, as equal as can be.
  void chunks() {
    const bool even = layers_ % s_.pipeline == 0;
    s_.ends_as_layers = !even && (layers_ + 2) % s_.pipeline == 0;
    s_.stage_layers.clear();
    if (!even && !s_.ends_as_layers)
      s_.stage_layers = nearly_even(layers_, s_.pipeline);
    const int of_stage = static_cast<int>(
        divide_up(layers_ + (s_.ends_as_layers ? 2 : 0), s_.pipeline));
    const std::vector<int> usual = s_.stage_layers.empty()
                                       ? divisors(of_stage, kMostChunks)
                                       : std::vector<int>{1};
    for (const int v : choose(q_.limits.virtual_stages, usual)) {
      if (v > 1 && s_.pipeline == 1) continue;
      s_.virtual_stages = v;
      chunk_layers_ = std::max(1, of_stage / v);
      schedules();
    }
  }

  void schedules() {
    using enum Schedule;
    for (const auto schedule : choose<Schedule>(
             q_.limits.schedule, {one_f_one_b, gpipe, interleaved})) {
      const bool plain = schedule == one_f_one_b || schedule == gpipe;
      if (plain && s_.virtual_stages > 1) continue;
      if (schedule == interleaved && s_.virtual_stages == 1) continue;
      if (schedule != one_f_one_b && s_.pipeline == 1) continue;
      s_.schedule = schedule;
      micro_batch_sizes();
    }
  }

  void micro_batch_sizes() {
    const int most = std::max(1, kMostMicroBatchTokens / q_.workload.sequence);
    for (const int b : choose(q_.limits.micro_batch, powers_of_two(most))) {
      s_.micro_batch = b;
      recomputations();
    }
  }

  void recomputations() {
    const auto& asked = q_.limits.recompute;
    for (const Recompute& r :
         asked.empty() ? usual_recomputations(q_, chunk_layers_) : asked) {
      s_.recompute = r;
      zero_stages();
    }
  }

  void zero_stages() {
    for (const int zero : choose<int>(q_.limits.zero, {0, 1, 2, 3})) {
      s_.zero = zero;
      shard_groups();
    }
  }

  /// All ranks; of optimizer states or everything also those of one node, with
  /// replicas across nodes.
  void shard_groups() {
    s_.shard_group = 0;
    offloads();
    const int ranks = s_.data * s_.context;
    const int inside = q_.cluster.devices_per_node / s_.tensor;
    if (s_.zero % 2 == 0 || inside < 2 || inside >= ranks) return;
    s_.shard_group = inside;
    offloads();
  }

  void offloads() {
    const auto& asked = q_.limits.offload;
    for (const Offload& offload :
         asked.empty() ? usual_offloads(q_.cluster, s_.zero) : asked) {
      s_.offload = offload;
      if (!repeats_lower_stage()) visit_(s_);
    }
  }

  /// Whether one rank would hold all that ZeRO cuts.
  bool is_alone() const {
    return s_.data * s_.context == 1 &&
           (most_experts(q_.model) == 1 || expert_data(s_) == 1);
  }

  /// Whether a lower stage that is visited too is the same plan, by the rules
  /// of the same engine: on one rank stages differ in nothing but the copies
  /// they do without.
  bool repeats_lower_stage() const {
    if (!is_alone()) return false;
    const Engine* engine = engine_for(q_, s_);
    if (engine == nullptr) return false;
    Strategy lower = s_;
    return std::ranges::any_of(
        choose(q_.limits.zero, {0, 1, 2, 3}), [&](int stage) {
          lower.zero = stage;
          return stage < s_.zero && !saves_over(stage, *engine->memory) &&
                 engine_for(q_, lower) == engine;
        });
  }

  /// Whether this stage spares a copy that `lower` keeps: gradients that leave
  /// the device, weights beside the shards that are their master.
  bool saves_over(int lower, const EngineMemory& keeps) const {
    if (s_.offload.optimizer != OffloadTier::none)
      return keeps.gradients_leave_device && lower < 2 && s_.zero >= 2;
    const bool is_one_batch = q_.workload.global_batch == s_.micro_batch;
    return s_.zero == 3 && (keeps.shards_are_master ||
                            (keeps.gradients_replace_weights && is_one_batch));
  }

  const Question& q_;
  const std::function<void(const Strategy&)>& visit_;
  int layers_;
  int devices_;
  int chunk_layers_ = 1;
  Strategy s_;
};

}  // namespace

void enumerate(const Question& question,
               const std::function<void(const Strategy&)>& visit) {
  Enumeration(question, visit).run();
}

}  // namespace ztplan
