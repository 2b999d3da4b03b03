#include <doctest/doctest.h>

#include "support/memory_world.h"

using namespace ztplan;

namespace {

double per_parameter(const World& world) {
  return static_cast<double>(states(world.stage(0)).value) /
         static_cast<double>(world.share(0).total());
}

World gpt_world(const char* strategy) {
  return world(gpt(24, 1024, 16, 51200), workload(1024, 64), strategy);
}

Bytes on(const World& world, Tier tier, const char* what) {
  Bytes sum;
  for (const Holding& holding : world.ledger_of(0)) {
    if (holding.tier == tier && std::string_view(holding.what) == what)
      sum += holding.bytes;
  }
  return sum;
}

/// Pythia 2.8B as DeepSpeed holds it for one GPU, all states on the host.
World pythia(const char* engine) {
  ModelSpec model = gpt(32, 2560, 32, 50304);
  model.tied = false;
  model.position_rows = 0;
  return with_engine(
      world(model, workload(2048, 1), "zero=3,offload=cpu+parameters"), engine);
}

}  // namespace

// ZeRO, arXiv 1910.02054, section 3.1; Megatron-LM, docs: dist_optimizer.
TEST_CASE("states take 16 bytes a parameter, 18 with fp32 gradients") {
  const World one = gpt_world("");
  CHECK(per_parameter(one) == 18);
  CHECK(per_parameter(with_gradients(one, Precision::bf16)) == 16);
  World full = one;
  full.work.precision = Precision::fp32;
  CHECK(per_parameter(full) == 16);
}

// pytorch/torchtune README.md, optimization ladder: 3.2B parameters in bf16
// with bf16 states, every layer recomputed, peak at 24.9 GiB of active memory.
TEST_CASE("weights that torch stores in 16 bits have no other master") {
  World pure =
      with_engine(with_gradients(gpt_world(""), Precision::bf16), "fsdp");
  CHECK(per_parameter(pure) == 16);
  pure.work.parameter = pure.work.moments = Precision::bf16;
  CHECK(per_parameter(pure) == 8);
  CHECK(per_parameter(with_engine(pure, "megatron")) == 12);
}

TEST_CASE("the distributed optimizer takes 6 + 12 / d bytes a parameter") {
  for (const int data : {2, 4, 8, 64}) {
    World sharded = gpt_world("zero=1");
    sharded.strategy.data = data;
    CHECK(per_parameter(sharded) ==
          doctest::Approx(6 + 12.0 / data).epsilon(1e-5));
  }
}

// ColossalAI, zero/gemini/gemini_ddp.py: reuse_fp16_chunk.
TEST_CASE("Gemini's gradients take the place of weights, unless accumulated") {
  const auto gradients = [](int batch) {
    World gemini = with_engine(gpt_world("zero=3,dp=8"), "colossalai");
    gemini.work.gradient = Precision::bf16;
    gemini.work.global_batch = batch;
    return on(gemini, Tier::device, "gradients") /
           Bytes{gemini.share(0).total()};
  };
  CHECK(gradients(8) == 0);
  CHECK(gradients(16) == doctest::Approx(2.0 / 8).epsilon(1e-5));
}

TEST_CASE("each ZeRO stage shards what it names") {
  const World two = with_gradients(gpt_world("zero=2,dp=8"), Precision::bf16);
  CHECK(per_parameter(two) == doctest::Approx(2 + 14.0 / 8).epsilon(1e-5));
  const World three = with_gradients(gpt_world("zero=3,dp=8"), Precision::bf16);
  CHECK(per_parameter(three) == doctest::Approx(16.0 / 8).epsilon(1e-5));
  const World hybrid =
      with_gradients(gpt_world("zero=3,dp=64,shard=8"), Precision::bf16);
  CHECK(states(hybrid.stage(0)) == states(three.stage(0)));
}

// DeepSpeed, runtime/zero/stage_1_and_2.py: averaged_gradients are added to
// after backward, accumulated_grads_in_cpu hold those of an offloaded
// optimizer.
TEST_CASE("ZeRO 2 of DeepSpeed adds a shard of its own a micro-batch") {
  const auto added = [](const char* strategy, int batch, Tier tier) {
    World two = with_engine(gpt_world(strategy), "deepspeed");
    two.work.gradient = Precision::bf16;
    two.work.global_batch = batch;
    return (on(two, tier, "gradients before they are added") +
            on(two, tier, "accumulated gradients")) /
           Bytes{two.share(0).total()};
  };
  CHECK(added("zero=2,dp=8", 16, Tier::device) ==
        doctest::Approx(2.0 / 8).epsilon(1e-5));
  CHECK(added("zero=2,dp=8", 8, Tier::device) == 0);
  CHECK(added("zero=1,dp=8", 16, Tier::device) == 0);
  CHECK(added("zero=3,dp=8", 16, Tier::device) == 0);
  CHECK(added("zero=2,dp=8,offload=cpu", 16, Tier::host) ==
        doctest::Approx(2.0 / 8).epsilon(1e-5));
  CHECK(added("zero=2,dp=8,offload=cpu", 16, Tier::device) == 0);
}

// torch, distributed/fsdp/_fully_shard/_fsdp_collectives.py: a gradient as
// computed, and the input of its reduce-scatter in reduce_dtype.
TEST_CASE("a gradient of FSDP is copied into the dtype it is reduced in") {
  World three = with_engine(gpt_world("zero=3,dp=8"), "fsdp");
  const Bytes layer{three.share(0).largest_layer};
  const char* const what = "gradient of one whole layer";
  CHECK(on(three, Tier::device, what) == layer * 6);
  three.work.parameter = Precision::bf16;
  CHECK(on(three, Tier::device, what) == layer * 6);
  three.work.framework.narrow_reduction = true;
  CHECK(on(three, Tier::device, what) == layer * 4);
}

// torch, FSDPModule.set_requires_gradient_sync: unsynchronized gradients
// accumulate on unsharded parameters in reduce_dtype; accelerate's no_sync.
TEST_CASE("accelerate sums the gradients of micro-batches whole") {
  const auto whole = [](const char* strategy, int batch, Precision reduced) {
    World world = with_engine(gpt_world(strategy), "fsdp");
    world.work.global_batch = batch;
    world.work.framework = load_framework("accelerate");
    world.strategy.tuning.communication = reduced;
    return on(world, Tier::device, "whole gradients of earlier micro-batches") /
           Bytes{world.share(0).total()};
  };
  for (const char* strategy : {"zero=2,dp=8", "zero=3,dp=8"}) {
    CHECK(whole(strategy, 16, Precision::bf16) == 2);
    CHECK(whole(strategy, 16, Precision::fp32) == 4);
    CHECK(whole(strategy, 8, Precision::bf16) == 0);
  }
  CHECK(whole("zero=0,dp=8", 16, Precision::bf16) == 0);
}

// Nothing of the shards is there before the last micro-batch: zero_grad() of
// torch leaves none.
TEST_CASE("shards of whole sums come with the last micro-batch") {
  World world = with_engine(gpt_world("zero=3,dp=8"), "fsdp");
  world.work.global_batch = 16;
  const auto from = [&] {
    for (const Holding& holding : world.ledger_of(0))
      if (std::string_view(holding.what) == "gradients") return holding.from;
    return Phase::step;
  };
  CHECK(from() == Phase::forward);
  world.work.framework = load_framework("accelerate");
  CHECK(from() == Phase::reduce);
}

TEST_CASE("shards are equal, aligned and sum to the padded whole") {
  CHECK(padded_shard(1000, 1) == 1000);
  for (const std::int64_t parts : {2, 3, 7, 8, 96, 128, 1000, 4096}) {
    for (const std::int64_t whole : {1, 127, 1'000'000, 1'000'003}) {
      const std::int64_t padded = parts * padded_shard(whole, parts);
      CHECK(padded >= whole);
      CHECK(padded % 128 == 0);
      CHECK(padded - whole < 128 * parts);
    }
  }
}

// arXiv 2205.05198, table 5 configuration: parameters and optimizer states of
// a middle stage of 175B, tensor 8, pipeline 8, take 45.56 GiB.
TEST_CASE("a middle stage of 175B holds 45.56 GiB of states") {
  World gpt3 = world(gpt(96, 12288, 96, 51200), workload(2048, 64),
                     "tp=8,pp=8,sp=1,recompute=selective");
  CHECK(gib(states(gpt3.stage(3))) == doctest::Approx(45.56).epsilon(0.001));
  // Its ends, as Megatron-LM's theoretical_memory_usage.py has them: without
  // the position table.
  gpt3.model.position_rows = 0;
  CHECK(gib(states(gpt3.stage(0))) == doctest::Approx(46.89).epsilon(0.001));
  CHECK(gib(states(gpt3.stage(7))) == doctest::Approx(46.89).epsilon(0.001));
}

// InternLM/xtuner#842: 70B with ZeRO 3 on sixteen GPUs of 80 GB.
TEST_CASE("70B on sixteen devices holds 65.7 GiB of states") {
  const World llama70 = with_gradients(
      world(llama3_70b(), workload(2048, 16), "zero=3,dp=16"), Precision::bf16);
  CHECK(gib(states(llama70.stage(0))) == doctest::Approx(65.7).epsilon(0.001));
  CHECK(llama70.stage(0).peak() > Bytes{70 * kGiB});
  World accumulating = with_engine(llama70, "fsdp");
  accumulating.work.global_batch = 32;
  CHECK(gib(states(accumulating.stage(0))) ==
        doctest::Approx(65.7).epsilon(0.001));
}

TEST_CASE("its optimizer states on the hosts are 12 bytes a parameter") {
  const World away =
      world(llama3_70b(), workload(2048, 16), "zero=3,dp=16,offload=cpu");
  const double whole =
      16.0 *
      static_cast<double>(on(away, Tier::host, "optimizer states").value);
  CHECK(whole == doctest::Approx(847e9).epsilon(0.001));
  CHECK(away.stage(0)[Term::optimizer] == Bytes{0});
}

// databrickslabs/dolly#111: 31 GiB of host memory were not enough.
TEST_CASE("Pythia 2.8B off one device needs 36 to 52 GiB of host memory") {
  for (const char* engine : {"deepspeed", "native"}) {
    CAPTURE(engine);
    const MemoryBreakdown memory = pythia(engine).stage(0);
    CHECK(gib(memory.host) > 36);
    CHECK(gib(memory.host) < 52);
    CHECK(gib(memory.peak()) < 24);
    CHECK(memory[Term::parameters] ==
          on(pythia(engine), Tier::device, "small parameters, whole"));
  }
}

// DeepSpeedExamples#192: 10.28B over two nodes of one GPU, 80 GB of swap files
// on each: fp32 master, moments and gradients.
TEST_CASE("10B on two drives takes 82 GB of each") {
  const World away = world(gpt(50, 4096, 16, 50304), workload(1024, 16),
                           "zero=3,dp=2,offload=nvme");
  const MemoryBreakdown memory = away.stage(0);
  CHECK(static_cast<double>(memory.nvme.value) ==
        doctest::Approx(82e9).epsilon(0.05));
  const World parameters_too =
      world(gpt(50, 4096, 16, 50304), workload(1024, 16),
            "zero=3,dp=2,offload=nvme+parameters");
  CHECK(parameters_too.stage(0).nvme > memory.nvme);
  CHECK(parameters_too.stage(0).peak() < memory.peak());
}

// pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md: 15.4 and
// 15.0 GiB less on 128 devices than on 8.
TEST_CASE("FSDP over 128 devices instead of 8 frees 14 to 16 GiB of 8B") {
  const auto peak = [](const char* strategy) {
    return with_engine(world(llama3_8b(), workload(8192, 256), strategy),
                       "fsdp")
        .stage(0)
        .peak();
  };
  const double freed =
      gib(peak("zero=3,dp=8,micro=2") - peak("zero=3,dp=128,micro=2"));
  CHECK(freed > 14);
  CHECK(freed < 16);
}

// torchtitan: under a pipeline the weights and gradients of the whole stage
// stay gathered, which other engines do not do.
TEST_CASE("FSDP under a pipeline holds its stage whole") {
  const World native =
      with_engine(world(llama3_70b(), workload(8192, 64),
                        "tp=8,pp=2,dp=4,zero=3,sp=1,recompute=full"),
                  "native");
  const World fsdp = with_engine(native, "fsdp");
  const std::int64_t stage = native.share(0).total();
  CHECK(fsdp.stage(0)[Term::gathered].value >= 6 * stage);
  CHECK(native.stage(0)[Term::gathered].value < stage);
}

// NVIDIA/Megatron-LM#1237: fp8 adds weights, it does not replace them.
TEST_CASE("fp8 holds at most two bytes a parameter more than bf16") {
  World narrow = gpt_world("");
  narrow.work.precision = Precision::fp8;
  const Bytes more = narrow.stage(0).peak() - gpt_world("").stage(0).peak();
  CHECK(more > Bytes{0});
  CHECK(more.value <= 2 * narrow.share(0).total());
}

TEST_CASE("experts are cut by expert parallelism and sharded over the rest") {
  ModelSpec model = llama(4, 1024, 16, 8, 2816, 32000);
  FeedForward& ffn = model.layers.front().layer.ffn;
  ffn.experts = 16;
  ffn.top_k = 2;
  ffn.expert_width = 2816;
  const auto experts = [&](const char* strategy) {
    return on(world(model, workload(2048, 32), strategy), Tier::device,
              "expert optimizer states");
  };
  CHECK(experts("dp=8,ep=8") == experts("dp=8,ep=1") / 8);
  CHECK(experts("dp=8,ep=4,zero=1") == experts("dp=8,ep=4") / 2);
  CHECK(experts("dp=8,ep=8,zero=1") == experts("dp=8,ep=8"));
  CHECK(experts("tp=2,sp=1,dp=4,ep=4,etp=2") == experts("dp=8,ep=8"));
  CHECK(experts("tp=2,sp=1,dp=4,ep=2,etp=2,zero=1") == experts("dp=8,ep=8"));
}
