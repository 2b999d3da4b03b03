// What page-locked host memory takes beyond the tensors in it: PyTorch rounds
// each block up to a power of two (aten/src/ATen/core/CachingHostAllocator.h).
#include <doctest/doctest.h>

#include "support/memory_world.h"

using namespace ztplan;

namespace {

Bytes rounding_of(const World& world) {
  for (const Holding& holding : world.ledger_of(0)) {
    if (std::string_view(holding.what) ==
        "pinned blocks, rounded up to powers of two") {
      CHECK(holding.tier == Tier::host);
      return holding.bytes;
    }
  }
  return {};
}

World gpt_world(const char* engine, const char* strategy) {
  return with_engine(
      world(gpt(24, 1024, 16, 51200), workload(1024, 64), strategy), engine);
}

/// The slow twin: doubled until it fits.
std::int64_t lost(std::int64_t bytes) {
  std::int64_t block = 1;
  while (block < bytes) block *= 2;
  return block - bytes;
}

/// One layer of 96 wide, 1024 rows of the vocabulary, untied.
World narrow(const char* engine) {
  return with_engine(world(llama(1, 96, 4, 4, 160, 1024), workload(2048, 1),
                           "zero=3,offload=cpu+parameters"),
                     engine);
}

}  // namespace

// runtime/zero/stage_1_and_2.py pins master weights, their fp32 gradients and a
// 16-bit buffer; runtime/zero/stage3.py 16-bit and fp32 gradients.
TEST_CASE("flat blocks of DeepSpeed are rounded up") {
  const World two = gpt_world("deepspeed", "zero=2,offload=cpu");
  const std::int64_t owned = two.share(0).total();
  CHECK(rounding_of(two) == Bytes{2 * lost(4 * owned) + lost(2 * owned)});
  CHECK(rounding_of(gpt_world("deepspeed", "zero=3,offload=cpu")) ==
        Bytes{lost(4 * owned) + lost(2 * owned)});
  CHECK(rounding_of(gpt_world("deepspeed", "zero=3,offload=cpu+parameters")) ==
        Bytes{lost(4 * owned) + 2 * lost(2 * owned)});
}

// runtime/swap_tensor: four buffers of the optimizer, five in one of weights.
TEST_CASE("swap buffers of DeepSpeed are rounded up") {
  const World away = gpt_world("deepspeed", "zero=3,offload=nvme+parameters");
  const std::int64_t owned = away.share(0).total();
  REQUIRE(owned > 100'000'000);
  CHECK(rounding_of(away) ==
        Bytes{4 * lost(4 * owned) + lost(10 * std::int64_t{100'000'000})});
}

// 36,864 of 65,536 bytes four times, 61,440 of 65,536 three times, 384 of 512
// three times, 393,216 of 524,288 twice; and their gradients.
TEST_CASE("every tensor of FSDP is rounded up by itself") {
  CHECK(rounding_of(narrow("fsdp")) ==
        Bytes{2L * (4 * 28'672 + 3 * 4'096 + 3 * 128 + 2 * 131'072)});
}

TEST_CASE("a host holds tensors and what their blocks are rounded up by") {
  const World two = gpt_world("deepspeed", "zero=2,offload=cpu");
  const MemoryBreakdown memory = two.stage(0);
  CHECK(memory.host_rounding == rounding_of(two));
  CHECK(memory.host + memory.host_rounding ==
        phase_bytes(two.ledger_of(0), Tier::host).front());
  CHECK(fullness(memory).host == memory.host + memory.host_rounding);
}

TEST_CASE("what is not pinned is not rounded") {
  for (const char* engine : {"megatron", "native", "colossalai"})
    CHECK(rounding_of(gpt_world(engine, "zero=1,offload=cpu")) == Bytes{});
  for (const char* engine : {"deepspeed", "fsdp"})
    CHECK(rounding_of(gpt_world(engine, "zero=3")) == Bytes{});
}
