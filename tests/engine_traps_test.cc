// Known traps are met where their threads report them, and not beside it.
#include "search/engine_traps.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "search/warnings.h"
#include "support/planning.h"

using namespace ztplan;

namespace {

struct Row {
  const char* engine;
  const char* model;
  int gpus;
  const char* met;     // a strategy that walks into the trap
  const char* beside;  // one that does not
  const char* rule;
};

std::vector<Finding> found(const Row& row, const char* strategy) {
  Question question = asked(row.model, "dgx-h100", row.gpus, 2048, 128);
  const Engine& engine = find_engine(row.engine);
  question.engines = {&engine};
  question.workload.engine = row.engine;
  const Plan plan =
      evaluate(question, engine, parse_strategy(strategy, row.gpus));
  return warnings(question, plan);
}

constexpr Row kRows[] = {
    {"deepspeed", "mixtral-8x7b", 8, "zero=3", "zero=2",
     "experts-hang-stage-3"},
    {"deepspeed", "llama3-8b", 8, "zero=2,overlap=1,bucket=5e7",
     "zero=2,overlap=1,bucket=2e8", "overlap-comm-nan"},
    {"deepspeed", "llama3-8b", 8, "zero=2,offload=cpu",
     "zero=2,offload=cpu,micro=16", "offload-drops-gradients"},
    {"deepspeed", "llama3-8b", 16, "zero=3,hpz=8", "zero=3", "hpz-first-loss"},
    {"deepspeed", "llama3-8b", 16, "zero=3,hpz=8,offload=cpu", "zero=3,hpz=8",
     "hpz-with-offload"},
    {"deepspeed", "llama3-8b", 16, "zero=3,compress=quantized", "zero=3",
     "quantized-gradients-diverge"},
    {"deepspeed", "llama3-8b", 16, "zero=3,shard=8", "zero=3",
     "mics-needs-init"},
    {"fsdp", "mistral-7b", 8, "cp=2,zero=3", "zero=3", "context-drops-window"},
    {"fsdp", "llama3-8b", 8, "zero=3,offload=cpu+parameters", "zero=3",
     "offload-clips-on-host"},
    {"fsdp", "llama3-70b", 64, "zero=3", "zero=3,micro=2",
     "accumulation-holds-gradients"},
    {"fsdp", "llama3-8b", 16, "zero=3,shard=8", "zero=3",
     "replica-gradient-norm"},
    {"megatron", "llama3-8b", 8, "tp=2,zero=1,overlap=1",
     "tp=2,zero=1,overlap=0", "one-queue-no-overlap"},
    {"colossalai", "mixtral-8x7b", 8, "zero=3", "ep=8,zero=1",
     "gemini-with-experts"},
    {"colossalai", "llama3-8b", 8, "zero=3,offload=cpu", "zero=3",
     "gemini-offload-small-chunks"},
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
