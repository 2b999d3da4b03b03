// What a plan has and a file cannot say is named.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "interop/format.h"
#include "strategy/strategy.h"
#include "support/planning.h"

using namespace ztplan;

namespace {

Emitted emitted(const char* format, const Question& question,
                const char* strategy) {
  const Plan plan = evaluate(question, find_engine(question.workload.engine),
                             parse_strategy(strategy, 8));
  return find_format(format).emit({question, plan, Launcher::torchrun});
}

Question asked_of(const char* engine, const char* model) {
  Question question = asked(model, "dgx-h100", 8, 1024, 64);
  question.engines = {&find_engine(engine)};
  question.workload.engine = engine;
  return question;
}

std::vector<std::string> unsaid(const char* format, const char* engine,
                                const char* model, const char* strategy) {
  return emitted(format, asked_of(engine, model), strategy).unsaid;
}

bool names(const std::vector<std::string>& unsaid, std::string_view word) {
  return std::ranges::any_of(unsaid, [&](const std::string& entry) {
    return entry.find(word) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("Megatron builds another model when a part has no argument") {
  const auto of = [](const char* model) {
    return unsaid("megatron", "megatron", model, "dp=8,zero=1");
  };
  CHECK(of("llama3-8b").empty());
  CHECK(of("qwen2.5-7b").empty());  // --add-qkv-bias
  CHECK(names(of("gpt-oss-20b"), "attention sinks"));
  CHECK(names(of("olmoe-1b-7b"), "norm over all heads"));
  CHECK(names(of("phi3.5-moe"), "bias of attention or MLP alone"));
  CHECK(names(of("phi3.5-moe"), "bias of the head"));
  CHECK(names(of("gemma-7b"), "a gate other than SiLU"));
}

// accelerate.yaml has no key for either: both are arguments of Accelerator.
TEST_CASE("accelerate is told to reduce as often as was planned") {
  const auto of = [](const char* version) {
    Question question = asked_of("fsdp", "llama3-8b");
    question.workload.framework = load_framework(version);
    return emitted("accelerate", question, "dp=8,zero=3").unsaid;
  };
  CHECK(names(of("torchtitan"), "num_steps=8, sync_each_batch=True"));
  CHECK(!names(of("accelerate"), "sync_each_batch"));
  CHECK(names(of("accelerate"), "accumulation=8"));
}

TEST_CASE("the README says what the files cannot, and args.sh what is free") {
  const auto files = [](const char* model) {
    return emitted("megatron", asked_of("megatron", model), "dp=8,zero=1")
        .files;
  };
  const auto text = [](const std::vector<EmittedFile>& all, const char* name) {
    return std::ranges::find(all, std::string(name), &EmittedFile::name)->text;
  };
  const auto oss = files("gpt-oss-20b");
  CHECK(text(oss, "README.md").find("- model: attention sinks") !=
        std::string::npos);
  const auto llama = files("llama3-8b");
  CHECK(text(llama, "README.md").find("Not in these files") ==
        std::string::npos);
  const std::string args = text(llama, "args.sh");
  const std::size_t choices = args.find("CHOICES=(");
  REQUIRE(choices != std::string::npos);
  for (const char* free : {"--mock-data", "--tokenizer-type", "--lr"})
    CHECK(args.find(free, choices) != std::string::npos);
  CHECK(args.find("--num-layers") < choices);
  CHECK(text(llama, "launch.sh").find("${CHOICES[@]}") != std::string::npos);
}

TEST_CASE("fsdp.py recomputes whole layers alone") {
  const auto of = [](const char* strategy) {
    return unsaid("fsdp", "fsdp", "llama3-8b", strategy);
  };
  CHECK(names(of("dp=8,zero=3,recompute=selective"), "recompute=selective"));
  CHECK_FALSE(names(of("dp=8,zero=3,recompute=full"), "recompute"));
  CHECK_FALSE(names(of("dp=8,zero=3,recompute=full:8"), "recompute"));
}
