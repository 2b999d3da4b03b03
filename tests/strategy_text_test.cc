#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "strategy/strategy.h"

using namespace ztplan;

namespace {

std::string error_of(const std::string& text, int gpus) {
  try {
    parse_strategy(text, gpus);
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "accepted";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  int between(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(engine_);
  }
  bool coin() { return between(0, 1) == 1; }
  template <class Enum>
  Enum pick(int count) {
    return static_cast<Enum>(between(0, count - 1));
  }

 private:
  std::mt19937 engine_;
};

Recompute any_recompute(Dice& dice) {
  Recompute recompute{.mode = dice.pick<Recompute::Mode>(3)};
  if (recompute.mode == Recompute::Mode::full) {
    recompute.layers = dice.between(0, 9);
  }
  if (recompute.mode == Recompute::Mode::selective) {
    for (bool Recompute::*part :
         {&Recompute::attention, &Recompute::norms, &Recompute::mla_up_proj,
          &Recompute::mlp, &Recompute::moe, &Recompute::shared_experts})
      recompute.*part = dice.coin();
    recompute.activation =
        dice.coin() || recompute == Recompute{recompute.mode};
  }
  return recompute;
}

Strategy any_strategy(Dice& dice) {
  Strategy s;
  s.tensor = dice.between(1, 64);
  s.pipeline = dice.between(1, 64);
  s.virtual_stages = dice.between(1, 8);
  s.context = dice.between(1, 32);
  s.expert = dice.between(1, 256);
  s.data = dice.between(1, 4096);
  s.sequence_parallel = dice.coin();
  s.zero = dice.between(0, 3);
  s.shard_group = dice.coin() ? dice.between(1, 64) : 0;
  s.offload = {dice.pick<OffloadTier>(3), dice.pick<OffloadTier>(3)};
  s.recompute = any_recompute(dice);
  s.micro_batch = dice.between(1, 512);
  s.schedule = dice.pick<Schedule>(3);
  s.context_kind = dice.pick<ContextKind>(2);
  s.tuning.compression = dice.pick<Compression>(4);
  if (s.tuning.compression == Compression::topk)
    s.tuning.topk_percent = dice.between(1, 100);
  s.ends_as_layers = dice.coin();
  if (!s.ends_as_layers && dice.coin()) {
    for (int i = 0; i < s.pipeline; ++i) {
      s.stage_layers.push_back(dice.between(1, 20));
    }
  }
  return s;
}

}  // namespace

TEST_CASE("the short form is fixed") {
  Strategy s;
  s.tensor = 8;
  s.pipeline = 8;
  s.data = 16;
  s.sequence_parallel = true;
  s.zero = 1;
  s.recompute = {.mode = Recompute::Mode::selective, .attention = true};
  CHECK(to_text(s) ==
        "tp=8,pp=8,vpp=1,cp=1,ep=1,dp=16,sp=1,zero=1,offload=none,"
        "recompute=selective,micro=1,schedule=1f1b");
  CHECK(to_text(Strategy{}) ==
        "tp=1,pp=1,vpp=1,cp=1,ep=1,dp=1,sp=0,zero=0,offload=none,"
        "recompute=none,micro=1,schedule=1f1b");
}

TEST_CASE("further keys show only when they differ from their defaults") {
  Strategy s;
  const std::string plain = to_text(s);
  s.expert_tensor = 2;
  CHECK(to_text(s) == plain + ",etp=2");
  s.expert_tensor = 1;
  s.context_kind = ContextKind::ulysses;
  s.shard_group = 8;
  s.stage_layers = {7, 8, 8, 7};
  CHECK(to_text(s) == plain + ",cp_type=ulysses,shard=8,stages=7-8-8-7");
  s.stage_layers.clear();
  s.ends_as_layers = true;
  CHECK(to_text(s) == plain + ",cp_type=ulysses,shard=8,stages=ends");
}

TEST_CASE("every strategy reads back from its text") {
  Dice dice(20240607);
  for (int i = 0; i < 20000; ++i) {
    const Strategy s = any_strategy(dice);
    CAPTURE(to_text(s));
    REQUIRE(parse_strategy(to_text(s), 0) == s);
  }
}

TEST_CASE("missing keys take their defaults") {
  CHECK(parse_strategy("", 0) == Strategy{});
  Strategy s;
  s.tensor = 8;
  s.zero = 1;
  CHECK(parse_strategy(" tp = 8, zero=1 ", 0) == s);
  CHECK(parse_strategy("cp_type=ring,stages=even", 0) == Strategy{});

  const Strategy many = parse_strategy("pp=32,stages=0-2x15-2x15-1", 0);
  CHECK(many.stage_layers.size() == 32);
  CHECK(to_text(many).ends_with(",stages=0-2x30-1"));
  CHECK(parse_strategy(to_text(many), 0) == many);
}

TEST_CASE("dp is what the GPUs leave") {
  CHECK(parse_strategy("tp=8,pp=8", 1024).data == 16);
  CHECK(parse_strategy("tp=2,cp=2,pp=2", 64).data == 8);
  CHECK(parse_strategy("tp=8,dp=3", 1024).data == 3);  // for a rule to refuse
}

TEST_CASE("a remainder of GPUs is left for a rule to refuse") {
  CHECK(parse_strategy("tp=3", 1024).data == 341);
  CHECK(parse_strategy("tp=8,pp=2", 8).data == 1);
}

TEST_CASE("more chunks than one a stage interleave unless told otherwise") {
  CHECK(parse_strategy("pp=4,vpp=2", 0).schedule == Schedule::interleaved);
  CHECK(parse_strategy("pp=4", 0).schedule == Schedule::one_f_one_b);
  CHECK(parse_strategy("pp=4,vpp=2,schedule=1f1b", 0).schedule ==
        Schedule::one_f_one_b);
}

TEST_CASE("offload and recomputation have one text each") {
  using Tier = OffloadTier;
  CHECK(to_text(Offload{}) == "none");
  CHECK(to_text(Offload{Tier::cpu, Tier::none}) == "cpu");
  CHECK(to_text(Offload{Tier::nvme, Tier::nvme}) == "nvme+parameters");
  CHECK(to_text(Offload{Tier::nvme, Tier::cpu}) == "nvme+parameters:cpu");
  CHECK(to_text(Offload{Tier::none, Tier::cpu}) == "parameters:cpu");
  CHECK(parse_recompute("selective") == parse_recompute("selective:attention"));
  CHECK(to_text(parse_recompute("selective:activation+norms")) ==
        "selective:norms+activation");
  CHECK(to_text(parse_recompute("selective:moe+mlp+mla_up_proj+attention")) ==
        "selective:attention+mla_up_proj+mlp+moe");
  CHECK(parse_recompute("selective:shared_experts").shared_experts);
  CHECK_FALSE(parse_recompute("selective:shared_experts").moe);
  CHECK(to_text(parse_recompute("full:4")) == "full:4");
  CHECK(parse_recompute("full").layers == 0);
}

TEST_CASE("bad text is refused with key, value and what is allowed") {
  const struct {
    const char* text;
    const char* said;
  } rows[] = {
      {"tp=0", "tp must be a whole number from 1 to 1000000, not \"0\""},
      {"tp=-1", "tp must be a whole number from 1 to 1000000, not \"-1\""},
      {"tp=8x", "not \"8x\""},
      {"tp=", "not \"\""},
      {"tp=1e3", "not \"1e3\""},
      {"dp=99999999999999999999", "not \"99999999999999999999\""},
      {"tp=1000001", "from 1 to 1000000"},
      {"tp=1000,pp=1000,cp=1000,dp=1000", "more than 1000000000 devices"},
      {"sp=2", "sp must be a whole number from 0 to 1, not \"2\""},
      {"zero=4", "zero must be a whole number from 0 to 3, not \"4\""},
      {"shard=0", "shard must be a whole number from 1"},
      {"schedule=1F1B", "schedule must be gpipe, 1f1b, interleaved"},
      {"cp_type=tree", "cp_type must be ring, ulysses, not \"tree\""},
      {"offload=disk", "offload must be none, cpu, nvme"},
      {"offload=none+parameters", "offload must be"},
      {"recompute=some", "recompute must be none, selective"},
      {"recompute=selective:", "recompute must be"},
      {"recompute=selective:ffn", "not \"selective:ffn\""},
      {"recompute=selective:mlp+", "mla_up_proj, mlp, moe, shared_experts"},
      {"recompute=full:0", "not \"full:0\""},
      {"stages=7-8-",
       "stages must be even, ends or the layers of each stage or chunk"},
      {"stages=7x0", "7-8-8-7"},
      {"stages=7x10001", "7-8-8-7"},
      {"stages=7--7", "not \"7--7\""},
      {"tp=8,tp=4", "tp is given twice"},
      {"tp=8,", "\"\" is not key=value"},
      {"tp", "\"tp\" is not key=value"},
      {"shedule=1f1b", "no key \"shedule\" | did you mean schedule?"},
      {"\x1b[31m=1", "no key \"\\x1b[31m\""},
  };
  for (const auto& row : rows) {
    const std::string error = error_of(row.text, 0);
    CAPTURE(row.text);
    CAPTURE(error);
    CHECK(contains(error, row.said));
  }
}

TEST_CASE("words of the workload read back") {
  for (const char* word : {"fp32", "fp16", "bf16", "fp8"}) {
    CHECK(to_text(parse_precision(word)) == word);
  }
  for (const char* word : {"flash", "eager"}) {
    CHECK(to_text(parse_attention(word)) == word);
  }
  CHECK_THROWS_AS(parse_precision("tf32"), Error);
  CHECK(bytes_of(Precision::fp32) == 4);
  CHECK(bytes_of(Precision::bf16) == 2);
  CHECK(bytes_of(Precision::fp8) == 1);
}
