#include "interop/diagnose.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/quantity_text.h"

namespace ztplan {
namespace {

constexpr std::size_t kRemedies = 3;
// PyTorch rounds large allocations up to 2 MiB: c10/cuda/
// CUDACachingAllocator.cpp, kRoundLarge.
constexpr Bytes kLargeRounding{2 * kMiB};

std::string device_explanation(const FailureLog& log) {
  if (!log.requested) return "the GPU ran out of memory";
  std::string text =
      fmt::format("the GPU could not give {}", ztplan::text(*log.requested));
  if (log.allocated)
    text += fmt::format(" beside {} already allocated",
                        ztplan::text(*log.allocated));
  if (log.capacity) text += fmt::format(" of {}", ztplan::text(*log.capacity));
  return text;
}

std::string explanation(const FailureLog& log) {
  switch (log.kind) {
    case FailureKind::device_memory:
      return device_explanation(log);
    case FailureKind::host_memory:
      return "host memory ran out: the operating system killed a process with "
             "signal 9 (exit code -9 or 137); this is no CUDA error";
    case FailureKind::nccl:
      return "NCCL could not allocate its buffers: device memory was full "
             "before a communicator was made";
    case FailureKind::none:
      break;
  }
  return log.peak ? fmt::format("no failure; the log reports a peak of {}",
                                text(*log.peak))
                  : "";
}

/// Reserved but unused memory as large as what was asked for.
bool is_fragmented(const FailureLog& log) {
  return log.unallocated && log.requested && *log.unallocated >= *log.requested;
}

std::vector<std::string> general_advice(const FailureLog& log) {
  std::vector<std::string> advice;
  if (is_fragmented(log))
    advice.push_back(
        fmt::format("{} are reserved but unused: fragmentation; set "
                    "PYTORCH_ALLOC_CONF=expandable_segments:True",
                    text(*log.unallocated)));
  if (log.scores)
    advice.emplace_back(
        "scores of eager attention: use flash attention, or a smaller "
        "micro-batch");
  if (log.phase == Phase::loss)
    advice.emplace_back(
        "logits and loss: use a chunked or fused cross-entropy, or "
        "vocabulary-parallel tensor parallelism");
  if (log.kind == FailureKind::host_memory) {
    advice.emplace_back("more RAM on the host, or more nodes to share it");
    advice.emplace_back("8-bit Adam on the GPU instead of offload");
    advice.emplace_back("LoRA: optimizer states of adapters alone");
  }
  if (log.loading)
    advice.emplace_back(
        "every rank loads the whole model: build it on the meta device "
        "(zero.Init, low_cpu_mem_usage, cpu_ram_efficient_loading)");
  if (log.kind == FailureKind::nccl)
    advice.emplace_back(
        "leave 1 to 2 GiB free, or lower NCCL_BUFFSIZE or NCCL_MAX_NCHANNELS");
  return advice;
}

void add_advice_of(const Tensor& tensor, std::vector<std::string>& advice) {
  std::string found;
  if (tensor.name == "attention scores")
    found =
        "attention scores exist only in eager attention: flash attention makes "
        "them disappear; recomputation does not, since a layer makes them "
        "again";
  else if (tensor.name.starts_with("logits"))
    found =
        "a chunked or fused cross-entropy never holds all logits; "
        "vocabulary-parallel tensor parallelism divides them";
  else if (tensor.name == "gradient bucket")
    found = "a smaller reduce_bucket_size";
  else if (tensor.name == "master weights or one moment")
    found =
        "optimizer states are made at the first step: shard or offload them";
  if (!found.empty()) advice.insert(advice.begin(), found);
}

/// A plan that leaves nothing on the hosts did not fill them.
void add_advice_of_host(const Plan& plan, Diagnosis& d) {
  if (host_taken(plan.memory) > Bytes{0}) return;
  d.advice.emplace_back(
      "this plan keeps nothing on the hosts: look at how weights are loaded "
      "(--load replicated shows it), and at workers of the data loader");
}

std::string dominant(const Plan& plan, const FailureLog& log) {
  if (log.kind == FailureKind::host_memory)
    return fmt::format("host: {} a GPU", text(host_taken(plan.memory)));
  int most = 0;
  for (int i = 1; i < kTerms; ++i)
    if (plan.memory[static_cast<Term>(most)] <
        plan.memory[static_cast<Term>(i)])
      most = i;
  const auto term = static_cast<Term>(most);
  return fmt::format("{}: {} of {}", to_text(term), text(plan.memory[term]),
                     text(plan.memory.peak()));
}

}  // namespace

Diagnosis diagnose(const FailureLog& log) {
  Diagnosis d;
  d.kind = to_text(log.kind);
  d.line = log.line;
  d.explanation = explanation(log);
  d.advice = general_advice(log);
  d.requested = log.requested;
  d.allocated = log.allocated;
  d.capacity = log.capacity;
  d.unallocated = log.unallocated;
  d.peak = log.peak;
  if (log.loading)
    d.phase = "loading";
  else if (log.phase)
    d.phase = to_text(*log.phase);
  return d;
}

void explain_with(const FailureLog& log, const Question& question,
                  const Plan& plan, Diagnosis& d) {
  const Setting setting{question.model, question.cluster, question.workload};
  if (log.requested) {
    const Bytes tolerance = std::max(log.rounding, kLargeRounding);
    d.matches = matching(tensors_of(setting, *plan.engine, plan.strategy),
                         *log.requested, tolerance);
  }
  if (!d.matches.empty()) {
    add_advice_of(d.matches.front(), d.advice);
    if (d.phase.empty()) d.phase = to_text(d.matches.front().phase);
  }
  d.plan = plan;
  d.dominant_term = dominant(plan, log);
  if (log.kind == FailureKind::host_memory)
    add_advice_of_host(plan, d);
  else if (d.phase.empty())
    d.phase = to_text(plan.memory.peak_phase);
  const auto changes =
      log.kind == FailureKind::host_memory ? host_remedies : remedies;
  d.remedies = changes(question, *plan.engine, plan.strategy, kRemedies);
}

}  // namespace ztplan
