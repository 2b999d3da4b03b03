// Known traps are met where their threads report them, and not beside it.
#include "search/engine_traps.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "search/trap.h"
#include "search/warnings.h"
#include "support/planning.h"

using namespace ztplan;

namespace {

using Set = void (*)(Request&);
void nothing(Request&) {}
void lora(Request& r) { r.adapters = parse_adapters("r=8,targets=q,v"); }
void muon(Request& r) { r.optimizer = OptimizerKind::muon; }
void muon_in_fp16(Request& r) {
  muon(r);
  r.precision = Precision::fp16;
}
void muon_in_fp8(Request& r) {
  muon(r);
  r.precision = r.parameter = Precision::fp8;
}
void muon_with_wide_gradients(Request& r) {
  muon(r);
  r.gradient = Precision::fp32;
}
void muon_with_narrow_gradients(Request& r) {
  muon(r);
  r.gradient = Precision::bf16;
}
void fp8(Request& r) { r.precision = Precision::fp8; }
void lamb(Request& r) { r.optimizer = OptimizerKind::lamb; }
void chunked(Request& r) { r.loss = LossKernel::chunked; }

struct Cell {
  const char* strategy;
  Set set = nothing;
};

struct Row {
  const char* engine;
  const char* model;
  int gpus;
  Cell met;     // walks into the trap
  Cell beside;  // does not
  const char* rule;
};

std::vector<Finding> found(const Row& row, const Cell& cell) {
  Request request;
  request.engine = row.engine;
  request.model = row.model;
  request.cluster = "dgx-h100";
  request.gpus = row.gpus;
  request.sequence = 2048;
  request.global_batch = 128;
  cell.set(request);
  const Question question = ask(request).question;
  const Engine& engine = find_engine(row.engine);
  const Strategy strategy = parse_strategy(cell.strategy, row.gpus);
  if (const auto misfit = why_illegal(engine, setting_of(question), strategy))
    FAIL_CHECK(misfit->detail);
  return warnings(question, evaluate(question, engine, strategy));
}

constexpr Row kRows[] = {
    {"deepspeed",
     "mixtral-8x7b",
     8,
     {"zero=3"},
     {"zero=2"},
     "experts-hang-stage-3"},
    {"deepspeed",
     "llama3-8b",
     8,
     {"zero=2,overlap=1,bucket=5e7"},
     {"zero=2,overlap=1,bucket=2e8"},
     "overlap-comm-nan"},
    {"deepspeed",
     "llama3-8b",
     8,
     {"zero=2,offload=cpu"},
     {"zero=2,offload=cpu,micro=16"},
     "offload-drops-gradients"},
    {"deepspeed",
     "llama3-8b",
     16,
     {"zero=3,hpz=8"},
     {"zero=3"},
     "hpz-first-loss"},
    {"deepspeed",
     "llama3-8b",
     16,
     {"zero=3,hpz=8,offload=cpu"},
     {"zero=3,hpz=8"},
     "hpz-with-offload"},
    {"deepspeed",
     "llama3-8b",
     16,
     {"zero=3,compress=quantized"},
     {"zero=3"},
     "quantized-gradients-diverge"},
    {"deepspeed",
     "llama3-8b",
     16,
     {"zero=3,shard=8"},
     {"zero=3"},
     "mics-needs-init"},
    {"deepspeed",
     "llama3-8b",
     8,
     {"zero=2"},
     {"zero=2,micro=16"},
     "no-sync-refused"},
    {"deepspeed", "gpt3-1.3b", 8, {"zero=0"}, {"zero=1"}, "stage-0-bf16-norm"},
    {"deepspeed",
     "llama3-8b",
     8,
     {"zero=3,recompute=full", lora},
     {"zero=3", lora},
     "frozen-weights-recomputed"},
    {"deepspeed", "llama3-8b", 16, {"zero=3,hpz=8"}, {"zero=3"}, "hpz-hangs"},
    {"deepspeed",
     "gpt3-1.3b",
     8,
     {"pp=2,zero=1,stages=0-24"},
     {"pp=2,zero=1,stages=12-12"},
     "empty-stage-hangs"},
    {"deepspeed",
     "llama3-8b",
     8,
     {"zero=1", muon},
     {"zero=3", muon},
     "muon-partial-gradients"},
    {"deepspeed",
     "llama3-8b",
     8,
     {"zero=2", muon_in_fp16},
     {"zero=2", muon},
     "muon-fp16-overflow"},
    {"deepspeed",
     "llama3-8b",
     8,
     {"zero=1", muon_with_wide_gradients},
     {"zero=1", muon_with_narrow_gradients},
     "muon-not-orthogonal"},
    {"fsdp",
     "mistral-7b",
     8,
     {"cp=2,zero=3"},
     {"zero=3"},
     "context-drops-window"},
    {"fsdp",
     "llama3-8b",
     8,
     {"zero=3,offload=cpu+parameters"},
     {"zero=3"},
     "offload-clips-on-host"},
    {"fsdp",
     "llama3-70b",
     64,
     {"zero=3"},
     {"zero=3,micro=2"},
     "accumulation-holds-gradients"},
    {"fsdp",
     "llama3-8b",
     16,
     {"zero=3,shard=8"},
     {"zero=3"},
     "replica-gradient-norm"},
    {"fsdp",
     "llama3-8b",
     8,
     {"pp=2,zero=3"},
     {"zero=3"},
     "pipeline-gradient-scale"},
    {"fsdp",
     "mixtral-8x7b",
     8,
     {"ep=8,zero=3"},
     {"zero=3"},
     "expert-gradients-add-up"},
    {"fsdp",
     "mixtral-8x7b",
     8,
     {"tp=2,sp=1,zero=3"},
     {"zero=3"},
     "tensor-experts-gradient"},
    {"fsdp",
     "llama3-8b",
     8,
     {"tp=2,sp=1,cp=2,zero=3"},
     {"tp=2,sp=1,zero=3"},
     "shown-loss-is-partial"},
    {"fsdp",
     "llama3.2-1b",
     8,
     {"zero=3"},
     {"zero=0"},
     "tied-weights-two-groups"},
    {"fsdp",
     "llama3-8b",
     8,
     {"zero=3", lora},
     {"zero=0", lora},
     "frozen-weights-widened"},
    {"fsdp",
     "llama3-8b",
     8,
     {"tp=2,sp=1,zero=3", chunked},
     {"zero=3", chunked},
     "chunked-loss-tensor"},
    {"fsdp",
     "deepseek-v2-lite",
     8,
     {"pp=2,ep=2,zero=3,stages=14-13"},
     {"ep=2,zero=3"},
     "clip-without-experts"},
    {"megatron",
     "llama3-8b",
     8,
     {"tp=2,zero=1,overlap=1"},
     {"tp=2,zero=1,overlap=0"},
     "one-queue-no-overlap"},
    {"megatron",
     "llama3-8b",
     16,
     {"zero=1,shard=8,overlap=1"},
     {"zero=1,shard=8,overlap=0"},
     "instances-overlap-reduce"},
    {"megatron",
     "llama3-8b",
     16,
     {"zero=1,shard=8", muon},
     {"zero=1", muon},
     "muon-ignores-instances"},
    {"megatron",
     "llama3-8b",
     8,
     {"zero=1", muon_in_fp8},
     {"zero=1", muon},
     "muon-fp8-never-updates"},
    {"megatron",
     "mixtral-8x7b",
     8,
     {"ep=8,zero=3"},
     {"ep=4,zero=3"},
     "lone-rank-doubles-gradients"},
    {"megatron",
     "llama3-8b",
     8,
     {"zero=3,offload=cpu"},
     {"zero=1,offload=cpu"},
     "sharded-precision-aware"},
    {"megatron",
     "gpt3-1.3b",
     8,
     {"pp=2,zero=1,stages=0-24"},
     {"pp=2,zero=1,stages=12-12"},
     "empty-stage-hangs"},
    {"megatron",
     "llama3-8b",
     8,
     {"cp=2,zero=1"},
     {"zero=1"},
     "masked-part-is-nan"},
    {"megatron",
     "llama3-8b",
     8,
     {"zero=1,offload=cpu"},
     {"zero=1"},
     "offloaded-master-weights"},
    {"colossalai",
     "mixtral-8x7b",
     8,
     {"zero=3"},
     {"ep=8,zero=1"},
     "gemini-with-experts"},
    {"colossalai",
     "llama3-8b",
     8,
     {"zero=3,offload=cpu"},
     {"zero=3"},
     "gemini-offload-small-chunks"},
    {"colossalai",
     "llama3-8b",
     8,
     {"zero=2,offload=cpu", lamb},
     {"zero=2,offload=cpu"},
     "lamb-offloaded"},
    {"colossalai",
     "mixtral-8x7b",
     8,
     {"ep=8,zero=1", lora},
     {"ep=8,zero=1"},
     "experts-with-adapters"},
    {"colossalai",
     "llama3-8b",
     8,
     {"cp=2,zero=1"},
     {"zero=1"},
     "sequence-not-even"},
    {"colossalai",
     "llama3-8b",
     64,
     {"zero=2"},
     {"zero=2,overlap=0"},
     "zero-2-nan"},
    {"colossalai",
     "llama3-8b",
     16,
     {"zero=2,shard=8", fp8},
     {"zero=2,shard=8"},
     "low-level-fp8"},
    {"colossalai", "gpt3-1.3b", 8, {"zero=0"}, {"zero=1"}, "gpt2-flash-alone"},
    {"colossalai",
     "qwen2.5-7b",
     8,
     {"tp=2,zero=1"},
     {"tp=2,pp=2,zero=1"},
     "qwen2-tensor"},
};

}  // namespace

TEST_CASE("a plan is warned of the known traps of its engine") {
  for (const Row& row : kRows) {
    const std::string rule = row.rule;
    CAPTURE(rule);
    const auto met = found(row, row.met);
    const auto trap = std::ranges::find(met, rule, &Finding::rule);
    REQUIRE(trap != met.end());
    CHECK(trap->severity != Severity::refused);
    CHECK(trap->source.find('#') != std::string::npos);
    CHECK_FALSE(trap->remedy.empty());
    const auto beside = found(row, row.beside);
    CHECK(std::ranges::find(beside, rule, &Finding::rule) == beside.end());
  }
}

TEST_CASE("every known trap has a plan that meets it and one beside it") {
  const auto is_tested = [](std::string_view engine, std::string_view rule) {
    return std::ranges::any_of(kRows, [&](const Row& row) {
      return engine == row.engine && rule == row.rule;
    });
  };
  for (const auto& [engine, traps] :
       {std::pair("deepspeed", deepspeed_traps()),
        std::pair("fsdp", fsdp_traps()),
        std::pair("megatron", megatron_traps()),
        std::pair("colossalai", colossalai_traps())})
    for (const Trap& trap : traps) CHECK(is_tested(engine, trap.rule));
}
