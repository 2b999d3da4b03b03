#include "search/warnings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "search/engine_traps.h"
#include "search/trap.h"
#include "step/build_step.h"
#include "time/measured_price.h"
#include "time/steady_state.h"

namespace ztplan {
namespace {

// A term of time is worth a word from here on.
constexpr double kMuch = 0.25;
constexpr double kPercent = 100;
constexpr double kLowUse = 0.05;  // MFU

class Warner {
 public:
  Warner(const Question& question, const Plan& plan)
      : q_(question), plan_(plan), s_(plan.strategy) {}

  std::vector<Finding> all() && {
    uneven_experts();
    slowest_gpu();
    not_measured();
    peer_to_peer();
    sharded_frozen();
    fp8_copies();
    repeated_reduction();
    full_sharding();
    low_use();
    return std::move(found_);
  }

 private:
  void warn(Severity severity, const char* rule, std::string detail,
            std::string remedy, const char* source) {
    found_.push_back({severity, rule, "strategy", std::move(detail),
                      std::move(remedy), source});
  }

  double share(TimeTerm term) const {
    return plan_.time[term] / plan_.time.total();
  }

  void uneven_experts() {
    if (routes(q_.model) && q_.workload.expert_load <= 1)
      warn(Severity::advice, "balanced-routing",
           "experts are taken to be loaded evenly; real routing is not "
           "balanced, so the speed is an upper bound",
           "measure with the router's own balance",
           "alibaba/Pai-Megatron-Patch#658");
  }

  /// Source: MegaScale (arXiv 2402.15627, section 6.3): about 0.5 % of its
  /// machines took 10 % longer for the same work and set the pace of all.
  void slowest_gpu() {
    if (q_.slowest < 1)
      warn(Severity::advice, "slowest-gpu",
           fmt::format("every step waits for a GPU of {:.4g} of the usual "
                       "speed, taken to be in each stage",
                       q_.slowest),
           "find it by timing one product on every GPU, and leave it out",
           "arXiv 2402.15627, section 6.3");
  }

  void not_measured() {
    if (!q_.calibration.measured) return;
    const Setting setting{q_.model, q_.cluster, q_.workload};
    const int passes =
        std::min(shortest_walk(s_), micro_batches(s_, q_.workload));
    const StepGraph graph = build_step(setting, *plan_.engine, s_, passes);
    std::vector<std::string> probes =
        unmeasured(graph.recipes(), {q_.cluster, q_.calibration});
    if (probes.empty()) return;
    constexpr std::size_t kNamed = 3;
    const std::size_t all = probes.size();
    probes.resize(std::min(kNamed, all));
    warn(Severity::advice, "not-measured",
         fmt::format(
             "the calibration has no {}{}: the time of such works is "
             "assumed",
             fmt::join(probes, ", "),
             all > kNamed ? fmt::format(" and {} more", all - kNamed) : ""),
         "ztplan calibrate, without --quick, on the machine itself",
         "docs/calibration.md");
  }

  void peer_to_peer() {
    const auto& levels = q_.cluster.levels;
    if (!levels.empty() && levels.front().name == "host" &&
        q_.cluster.devices_per_node > 1)
      warn(Severity::advice, "peer-to-peer-off",
           "peer-to-peer is off: GPUs of a node talk through host memory",
           "enable it where the cards allow (NCCL_P2P_DISABLE=0)",
           "hiyouga/LLaMA-Factory#3499");
  }

  void sharded_frozen() {
    if (s_.zero == 3 && q_.workload.adapters.any() &&
        share(TimeTerm::data_comm) > kMuch)
      warn(Severity::advice, "frozen-weights-sharded",
           "frozen weights are gathered twice in every micro-batch and are "
           "never reduced",
           "zero 2 or less, where they fit on each GPU",
           "hiyouga/LLaMA-Factory#3499");
  }

  void fp8_copies() {
    if (q_.workload.precision == Precision::fp8 &&
        q_.workload.parameter != Precision::fp8 && s_.zero < 3)
      warn(Severity::advice, "fp8-costs-memory",
           "fp8 buys speed here, not memory: copies in fp8 are kept beside "
           "16-bit weights",
           "--param-dtype fp8 (fp8-param-gather)", "NVIDIA/Megatron-LM#1237");
  }

  void repeated_reduction() {
    const int passes = micro_batches(s_, q_.workload);
    if (s_.zero >= 2 && passes > 1 && s_.pipeline == 1 && spans_nodes(q_) &&
        !q_.workload.framework.reduces_once &&
        share(TimeTerm::data_comm) > kMuch)
      warn(Severity::advice, "reduced-every-micro-batch",
           fmt::format("ZeRO {} reduces gradients in each of the {} "
                       "micro-batches, ZeRO 1 once",
                       s_.zero, passes),
           "zero 1 where it fits, or a larger micro-batch",
           "EleutherAI/gpt-neox#965");
  }

  void full_sharding() {
    if (s_.zero == 3 && s_.shard_group == 0 && spans_nodes(q_) &&
        share(TimeTerm::data_comm) > kMuch)
      warn(Severity::advice, "sharded-over-nodes",
           fmt::format("weights are gathered over the network: {:.0f} % of the "
                       "step; GPUs that wait for it show 100 % utilisation",
                       kPercent * share(TimeTerm::data_comm)),
           fmt::format("shard={} (inside a node, replicas across), more "
                       "accumulation, or one node",
                       q_.cluster.devices_per_node),
           "lm-sys/FastChat#9");
    else if (share(TimeTerm::data_comm) > kMuch)
      warn(Severity::advice, "exposed-data-communication",
           fmt::format("gradients and weights on their way take {:.0f} % of "
                       "the step",
                       kPercent * share(TimeTerm::data_comm)),
           "more accumulation (a larger --global-batch), or larger buckets "
           "with ZeRO 1",
           "InternLM/InternLM#22");
  }

  void low_use() {
    const bool away = s_.offload != Offload{};
    if (away && plan_.throughput.mfu < kLowUse)
      warn(Severity::advice, "offload-bound",
           fmt::format("{:.1f} % of the GPU's peak: traffic of a step is "
                       "constant, so a larger batch or accumulation raises it "
                       "almost linearly",
                       kPercent * plan_.throughput.mfu),
           "a larger --global-batch, or less offload on more GPUs",
           "deepspeedai/DeepSpeedExamples#192");
  }

  const Question& q_;
  const Plan& plan_;
  const Strategy& s_;
  std::vector<Finding> found_;
};

}  // namespace

std::vector<Finding> warnings(const Question& question, const Plan& plan) {
  std::vector<Finding> found = Warner(question, plan).all();
  for (Finding& trap : engine_traps(question, plan))
    found.push_back(std::move(trap));
  return found;
}

}  // namespace ztplan
