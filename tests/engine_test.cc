#include "strategy/engine.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "support/setting_case.h"

using namespace ztplan;

TEST_CASE("engines go by their names, the default first") {
  CHECK(std::string(engines().front()->name) == "megatron");
  for (const Engine* engine : engines()) {
    CHECK(&find_engine(engine->name) == engine);
  }
}

TEST_CASE("an unknown engine is refused with those there are") {
  try {
    find_engine("megatorn");
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) ==
          "there is no engine \"megatorn\"; engines: megatron, native, "
          "deepspeed, fsdp, colossalai");
    CHECK(error.hint() == "did you mean megatron?");
  }
  CHECK_THROWS_AS(find_engine("deepspede"), Error);
}

TEST_CASE("a legal strategy has no misfit") {
  const SettingCase world = small_case();
  const Strategy strategy = parse_strategy("tp=8,sp=1,zero=1", 16);
  CHECK_FALSE(why_illegal(find_engine("megatron"), world.setting(), strategy));
}

TEST_CASE("vocabularies are padded for every tensor rank") {
  ModelSpec model = small_gpt();
  const Engine& megatron = find_engine("megatron");
  CHECK(padded_vocab(megatron, model, 1) == 50304);
  CHECK(padded_vocab(megatron, model, 8) == 51200);  // the GPT-3 of its papers
  model.vocab = 256;
  CHECK(padded_vocab(find_engine("native"), model, 1) == 256);
  CHECK(padded_vocab(find_engine("native"), model, 8) == 512);
}
