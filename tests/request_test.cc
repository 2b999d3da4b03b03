#include "search/request.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "search/evaluate.h"
#include "support/messages.h"

using namespace ztplan;

namespace {

std::string taken(const Asked& asked, const std::string& option) {
  for (const Default& one : asked.defaults) {
    if (one.option == option) return one.value;
  }
  return "";
}

ModelSpec with_batch(int sequences) {
  ModelSpec model;
  model.global_batch = sequences;
  return model;
}

}  // namespace

TEST_CASE("the batch is the publication's, or about 4M tokens, to suit GPUs") {
  struct Row {
    int published, sequence, gpus, batch;
  };
  for (const Row& row : {
           Row{1536, 2048, 1024, 1536},     // as published
           Row{0, 2048, 1024, 2048},        // 4Mi tokens
           Row{0, 8192, 8, 512},            //
           Row{0, 8 << 20, 1, 1},           // longer than the batch
           Row{1536, 2048, 100000, 12500},  // N/8, a multiple of 3125
           Row{1536, 2048, 24, 1536},       // a multiple of 3 already
           Row{1024, 2048, 24, 1026},       // raised to one
           Row{512, 2048, 8192, 1024},      // N/8
       }) {
    CAPTURE(row.gpus);
    CAPTURE(row.published);
    const BatchChoice choice =
        default_batch(with_batch(row.published), row.sequence, row.gpus);
    CHECK(choice.sequences == row.batch);
  }
}

TEST_CASE("every default that is taken is told") {
  const Asked asked = ask({.model = "175b", .gpus = 1024});
  CHECK(taken(asked, "--cluster") == "dgx-h100");
  CHECK(taken(asked, "--seq") == "2048");
  CHECK(taken(asked, "--global-batch") == "1536");
  CHECK(taken(asked, "--precision") == "bf16");
  CHECK(taken(asked, "--grad-dtype") == "fp32");
  CHECK(taken(asked, "--attention") == "flash");
  CHECK(taken(asked, "--engine") == "megatron first");
  CHECK(asked.question.workload.engine == "megatron");
  CHECK(taken(asked, "--gpus").empty());
}

TEST_CASE("what was given is no default") {
  Request request{.model = "175b",
                  .cluster = "dgx-h100",
                  .gpus = 16,
                  .sequence = 4096,
                  .global_batch = 64};
  request.engine = "native";
  const Asked asked = ask(request);
  for (const char* option :
       {"--cluster", "--seq", "--global-batch", "--engine", "--gpus"}) {
    CAPTURE(option);
    CHECK(taken(asked, option).empty());
  }
  CHECK(asked.question.engines.size() == 1);
  CHECK(asked.question.workload.sequence == 4096);
}

TEST_CASE("a device without bf16 trains in fp16") {
  Request request{.model = "gpt2", .gpus = 8};
  request.machine.gpu = "v100-sxm2-32gb";
  const Asked asked = ask(request);
  CHECK(asked.question.workload.precision == Precision::fp16);
  CHECK(taken(asked, "--precision") == "fp16");
}

TEST_CASE("attention that the numbers forbid is no default") {
  Request request{.model = "gpt2", .gpus = 8};
  request.precision = Precision::fp32;
  struct Row {
    const char *engine, *kernel;
  };
  for (const Row& row : {Row{"megatron", "eager"}, Row{"deepspeed", "sdpa"},
                         Row{"fsdp", "sdpa"}, Row{"", "flash"}}) {
    CAPTURE(row.engine);
    request.engine = row.engine;
    const Asked asked = ask(request);
    CHECK(taken(asked, "--attention") == row.kernel);
    CHECK(engine_for(asked.question, parse_strategy("dp=8", 8)) != nullptr);
  }
}

TEST_CASE("a request out of range is refused with what is allowed") {
  CHECK(refusal([] { ask({}); }) == "which model?");
  CHECK(refusal([] { ask({.model = "gpt2", .gpus = 1'000'000'000}); }) ==
        "--gpus must be from 1 to 1000000, not 1000000000");
  CHECK(refusal([] {
          ask({.model = "gpt2", .global_batch = 8, .batch_tokens = 1e6});
        }) == "--global-batch and --tokens-per-batch say the same thing");
  CHECK(refusal([] { ask({.model = "gpt2", .batch_tokens = 1}); }) ==
        "--tokens-per-batch makes 0.000977 sequences");
}

TEST_CASE("objectives are read by name") {
  CHECK(parse_objective("memory") == Objective::memory);
  CHECK(to_text(Objective::gpus) == "gpus");
  CHECK_THROWS_AS(parse_objective("speed"), Error);
}
