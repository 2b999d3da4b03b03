#include "search/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>

#include "base/error.h"
#include "base/quote.h"
#include "spec/measured.h"
#include "strategy/engine.h"
#include "strategy/engine_memory.h"

namespace ztplan {
namespace {

// Tokens of a step, 4Mi: Llama 2, arXiv 2307.09288, table 1 ("Global batch
// size of 4M tokens").
constexpr std::int64_t kDefaultBatchTokens = std::int64_t{4} * 1024 * 1024;
// Fewer sequences than a device in 8 would leave most strategies no
// micro-batch to work on: tensor parallelism seldom leaves a node of 8.
constexpr int kDevicesPerSequence = 8;

constexpr std::array kObjectives = {
    std::pair<std::string_view, Objective>{"time", Objective::time},
    std::pair<std::string_view, Objective>{"memory", Objective::memory},
    std::pair<std::string_view, Objective>{"cost", Objective::cost},
    std::pair<std::string_view, Objective>{"gpus", Objective::gpus}};

void check_range(std::string_view option, int value, int most) {
  if (value >= 0 && value <= most) return;
  throw Error(
      fmt::format("{} must be from 1 to {}, not {}", option, most, value));
}

void check_share(std::string_view option, double value, double least,
                 double most) {
  if (value >= least && value <= most) return;
  throw Error(fmt::format("{} must be from {} to {}, not {}", option, least,
                          most, value));
}

int odd_part(int devices) {
  return devices >> std::countr_zero(static_cast<unsigned>(devices));
}

// Collects what was not given while a question is put together.
class Asking {
 public:
  explicit Asking(const Request& request) : request_(request) {}

  Asked ask() && {
    check();
    asked_.question.model = request_.given_model ? *request_.given_model
                                                 : load_model(request_.model);
    if (!request_.calibration.empty())
      measured_ = std::make_shared<const MeasuredMachine>(
          read_measured(request_.calibration));
    choose_cluster();
    choose_engines();
    choose_sequence();
    choose_batch();
    choose_numbers();
    choose_attention();
    copy_limits();
    asked_.request = request_;
    return std::move(asked_);
  }

 private:
  void check() const {
    if (request_.model.empty() && !request_.given_model) {
      throw Error("which model?", "add --model NAME; ztplan models lists them");
    }
    check_range("--gpus", request_.gpus, kMostGpus);
    check_range("--seq", request_.sequence, kMostSequence);
    check_range("--global-batch", request_.global_batch, kMostBatch);
    check_share("--slowest", request_.slowest, kSlowest, 1);
    check_share("--expert-load", request_.expert_load, 1, kMostLoad);
    if (request_.global_batch > 0 && request_.batch_tokens > 0) {
      throw Error("--global-batch and --tokens-per-batch say the same thing",
                  "give one of them");
    }
  }

  void told(std::string option, std::string value, std::string reason) {
    asked_.defaults.push_back(
        {std::move(option), std::move(value), std::move(reason)});
  }

  void choose_cluster() {
    Question& question = asked_.question;
    const bool named = !request_.cluster.empty();
    const bool by_gpu = !request_.machine.gpu.empty();
    ClusterOverrides machine = request_.machine;
    const bool here = measured_ && !named && !by_gpu;
    if (here) machine.gpu = measured_->device;
    question.cluster = load_cluster(request_.cluster, request_.gpus, machine);
    check_range("the number of GPUs", question.cluster.devices, kMostGpus);
    check_device();
    if (!named) {
      told("--cluster", question.cluster.name,
           here     ? "the calibration's"
           : by_gpu ? "the usual node of this GPU"
                    : "the default");
    }
    if (request_.gpus == 0 && request_.machine.nodes == 0) {
      told("--gpus", fmt::format("{}", question.cluster.devices), "one node");
    }
  }

  /// What was measured of one device says nothing of another.
  void check_device() const {
    const std::string& device = asked_.question.cluster.device.id;
    if (!measured_ || measured_->device == device) return;
    throw Error(fmt::format("{} measured {}, not {}", request_.calibration,
                            measured_->device, device),
                "leave out --calibration, or --cluster and --gpu");
  }

  void choose_engines() {
    Question& question = asked_.question;
    Framework& framework = question.workload.framework;
    const bool versioned = !request_.engine_version.empty();
    if (versioned) framework = load_framework(request_.engine_version);
    if (!request_.engine.empty()) {
      question.engines = {&find_engine(request_.engine)};
    } else if (versioned) {
      question.engines = {&find_engine(framework.engine)};
      told("--engine", framework.engine, framework.id + " is a version of it");
    } else {
      const auto all = default_engines();
      question.engines.assign(all.begin(), all.end());
      told("--engine", fmt::format("{} first", question.engines.front()->name),
           "the default");
    }
    question.workload.engine = question.engines.front()->name;
    if (!versioned) choose_version();
    question.slowest = request_.slowest;
    question.calibration = calibration_for(question.cluster.device, framework);
    if (measured_)
      question.calibration =
          with_measured(std::move(question.calibration), measured_);
    question.calibration =
        slowed(std::move(question.calibration), request_.slowest);
  }

  void choose_version() {
    Workload& workload = asked_.question.workload;
    const bool is_usual = !request_.usual_version.empty();
    if (is_usual) workload.framework = load_framework(request_.usual_version);
    const bool is_other = workload.framework.engine != workload.engine;
    if (!is_usual || is_other)
      workload.framework = default_framework(workload.engine);
    told("--engine-version", workload.framework.id,
         is_usual && !is_other ? "the file's" : "the engine's");
  }

  void choose_sequence() {
    Question& question = asked_.question;
    question.workload.sequence = request_.sequence;
    if (request_.sequence > 0) return;
    if (question.model.sequence <= 0) {
      throw Error("the model has no sequence length of its own", "add --seq N");
    }
    question.workload.sequence = question.model.sequence;
    told("--seq", fmt::format("{}", question.model.sequence), "the model's");
  }

  void choose_batch() {
    Workload& workload = asked_.question.workload;
    workload.global_batch = request_.global_batch;
    if (request_.global_batch > 0) return;
    const int devices = asked_.question.cluster.devices;
    if (request_.batch_tokens > 0) {
      workload.global_batch = batch_of_tokens(devices);
      told("--global-batch", fmt::format("{}", workload.global_batch),
           "--tokens-per-batch in whole sequences, a multiple of the odd part "
           "of the GPUs");
      return;
    }
    const BatchChoice choice =
        default_batch(asked_.question.model, workload.sequence, devices);
    workload.global_batch = choice.sequences;
    told("--global-batch", fmt::format("{}", choice.sequences), choice.reason);
  }

  int batch_of_tokens(int devices) const {
    const double sequences =
        request_.batch_tokens / asked_.question.workload.sequence;
    if (!(sequences >= 1 && sequences <= kMostBatch)) {
      throw Error(
          fmt::format("--tokens-per-batch makes {:.3g} sequences", sequences),
          fmt::format("it must make from 1 to {}", kMostBatch));
    }
    return static_cast<int>(
        round_up(std::llround(sequences), odd_part(devices)));
  }

  void choose_numbers() {
    Workload& workload = asked_.question.workload;
    const DeviceSpec& device = asked_.question.cluster.device;
    workload.precision = request_.precision.value_or(Precision::bf16);
    if (!request_.precision) choose_precision(workload, device);
    const Engine& engine = *asked_.question.engines.front();
    workload.gradient = request_.gradient.value_or(default_gradient(
        *engine.memory, workload.framework, workload.precision));
    if (!request_.gradient) {
      told("--grad-dtype", std::string(to_text(workload.gradient)),
           engine.name == std::string_view("megatron") ? "the default"
                                                       : "the engine's");
    }
    workload.optimizer = request_.optimizer.value_or(OptimizerKind::adam);
    workload.moments = request_.moments.value_or(Precision::fp32);
    workload.parameter = request_.parameter;
    workload.adapters = request_.adapters;
    workload.quantize = request_.quantize;
    workload.loss = request_.loss;
    workload.loading = request_.loading;
    workload.lengths = request_.lengths;
    workload.expert_load = request_.expert_load;
    check_adapters(asked_.question.model, workload.adapters);
    check_quantized(workload);
  }

  // "all" is what there is, so that the gate is meant only beside less.
  static void check_adapters(const ModelSpec& model, const Adapters& adapters) {
    const bool gated = std::ranges::any_of(
        model.layers,
        [](const LayerGroup& group) { return group.layer.ffn.gated; });
    const bool all = adapters.q && adapters.k && adapters.v && adapters.o &&
                     adapters.up && adapters.down;
    if (!adapters.gate || gated || all) return;
    throw Error(fmt::format("{} has no gate to train with --lora", model.name),
                "it has q, k, v, o, up and down");
  }

  static void check_quantized(const Workload& workload) {
    if (workload.quantize == Quantize::none || workload.adapters.any()) return;
    throw Error(fmt::format("weights in {} cannot be trained",
                            to_text(workload.quantize)),
                "add --lora r=8: adapters are trained beside them");
  }

  void choose_precision(Workload& workload, const DeviceSpec& device) {
    std::string reason = "the default";
    if (device.bf16.value <= 0 && device.fp16.value > 0) {
      workload.precision = Precision::fp16;
      reason = fmt::format("{} has no bf16", device.id);
    } else if (device.bf16.value <= 0) {
      workload.precision = Precision::fp32;
      reason = fmt::format("{} has neither bf16 nor fp16", device.id);
    }
    told("--precision", std::string(to_text(workload.precision)), reason);
  }

  void choose_attention() {
    Question& question = asked_.question;
    AttentionKernel& kernel = question.workload.attention;
    kernel = request_.attention.value_or(AttentionKernel::flash);
    if (request_.attention) return;
    if (!question.workload.framework.fused_attention) {
      kernel = AttentionKernel::eager;
      told("--attention", "eager", question.workload.framework.id);
      return;
    }
    const std::string reason = why_no_flash(question);
    const bool megatron =
        question.engines.front()->name == std::string_view("megatron");
    // Beside Megatron, native is asked as well, and has a kernel of its own.
    if (reason.empty() || (megatron && question.engines.size() > 1)) {
      told("--attention", "flash", "the default");
      return;
    }
    kernel = megatron ? AttentionKernel::eager : AttentionKernel::sdpa;
    told("--attention", std::string(to_text(kernel)), reason);
  }

  /// Why FlashAttention-2 cannot be the default; empty when it can.
  static std::string why_no_flash(const Question& question) {
    const DeviceSpec& device = question.cluster.device;
    const std::string& architecture = device.architecture;
    if (architecture == "Pascal" || architecture == "Volta" ||
        architecture == "Turing")
      return fmt::format("{} is {}: FlashAttention-2 needs Ampere", device.id,
                         architecture);
    if (question.workload.precision == Precision::fp32)
      return "FlashAttention-2 needs 16-bit numbers";
    return "";
  }

  void copy_limits() {
    Question& question = asked_.question;
    question.limits = request_.limits;
    question.objective = request_.objective;
    question.top = request_.top;
    question.margin = request_.margin;
  }

  const Request& request_;
  Asked asked_;
  std::shared_ptr<const MeasuredMachine> measured_;
};

}  // namespace

Asked ask(const Request& request) { return Asking(request).ask(); }

int given_per_node(const Asked& asked) {
  const Request& request = asked.request;
  if (request.gpus > 0 && request.machine.nodes > 0)
    return asked.question.cluster.devices_per_node;
  return request.machine.gpus_per_node;
}

BatchChoice default_batch(const ModelSpec& model, int sequence, int devices) {
  const bool published = model.global_batch > 0;
  const std::int64_t wanted =
      published ? model.global_batch
                : std::max<std::int64_t>(1, kDefaultBatchTokens / sequence);
  const std::int64_t least = divide_up(devices, kDevicesPerSequence);
  const std::int64_t batch =
      round_up(std::max(wanted, least), odd_part(devices));
  std::string reason = published ? "published" : "about 4M tokens";
  if (batch != wanted) {
    reason += fmt::format(", raised from {} to suit {} GPUs", wanted, devices);
  }
  return {static_cast<int>(batch), reason};
}

std::string_view to_text(Objective objective) {
  for (const auto& [text, value] : kObjectives) {
    if (value == objective) return text;
  }
  return "?";
}

Objective parse_objective(std::string_view text) {
  for (const auto& [name, value] : kObjectives) {
    if (name == text) return value;
  }
  throw Error(fmt::format(
      "objective must be time, memory, cost or gpus, not {}", quote(text)));
}

}  // namespace ztplan
