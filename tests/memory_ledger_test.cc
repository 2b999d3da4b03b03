#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/memory_world.h"

using namespace ztplan;

namespace {

World gpt3(const char* strategy) {
  World world =
      ztplan::world(gpt(96, 12288, 96, 51200), workload(2048, 64), strategy);
  world.work.attention = AttentionKernel::eager;
  return world;
}

Bytes held(const World& world, int stage, std::string_view what) {
  for (const Holding& holding : world.ledger_of(stage)) {
    if (holding.what == what) return holding.bytes;
  }
  return {};
}

Bytes kept_activations(const World& world, int stage) {
  return held(world, stage, "saved activations") +
         held(world, stage, "inputs of recomputed layers");
}

int pick(std::mt19937& random, std::initializer_list<int> values) {
  return values.begin()[random() % values.size()];
}

ModelSpec any_model(std::mt19937& random) {
  switch (random() % 4) {
    case 0:
      return gpt(24, 2048, 16, 50257);
    case 1:
      return llama(24, 2048, 16, 4, 5632, 32000);
    case 2: {
      ModelSpec model = llama(24, 1024, 16, 8, 2816, 64000);
      FeedForward& ffn = model.layers.front().layer.ffn;
      ffn.experts = 16;
      ffn.top_k = 2;
      ffn.expert_width = 1408;
      return model;
    }
    default: {
      ModelSpec model = llama(24, 2048, 16, 16, 8192, 102400);
      LayerGroup dense = model.layers.front();
      FeedForward& ffn = model.layers.front().layer.ffn;
      ffn.experts = 64;
      ffn.top_k = 6;
      ffn.expert_width = 1408;
      ffn.shared_width = 2816;
      model.layers.front().count = 23;
      dense.count = 1;
      model.layers.insert(model.layers.begin(), dense);
      return model;
    }
  }
}

Strategy any_strategy(std::mt19937& random) {
  Strategy s;
  s.tensor = pick(random, {1, 2, 4, 8});
  s.sequence_parallel = s.tensor > 1 && random() % 2 == 0;
  s.pipeline = pick(random, {1, 2, 3, 4, 8});
  s.virtual_stages = s.pipeline > 1 ? pick(random, {1, 1, 2, 3}) : 1;
  if (24 % (s.pipeline * s.virtual_stages) != 0) s.virtual_stages = 1;
  s.schedule =
      s.virtual_stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
  if (s.virtual_stages == 1 && random() % 4 == 0) s.schedule = Schedule::gpipe;
  s.context = pick(random, {1, 1, 2});
  s.data = pick(random, {1, 2, 4, 8});
  s.expert = pick(random, {1, 2, 4});
  s.expert = std::min(s.expert, s.data);
  s.zero = static_cast<int>(random() % 4);
  s.micro_batch = pick(random, {1, 2, 4});
  constexpr const char* kRecompute[] = {
      "none", "selective", "selective:norms+activation",
      "full", "full:1",    "selective:mlp+moe"};
  s.recompute = parse_recompute(kRecompute[random() % 6]);
  constexpr const char* kOffload[] = {
      "none", "none", "cpu", "cpu+parameters", "nvme", "nvme+parameters"};
  if (s.zero > 0) s.offload = parse_offload(kOffload[random() % 6]);
  return s;
}

World any_world(std::mt19937& random) {
  Workload work = workload(2048, 256);
  if (random() % 3 == 0) work.attention = AttentionKernel::eager;
  if (random() % 3 == 0) work.gradient = Precision::bf16;
  constexpr const char* kEngines[] = {"megatron", "deepspeed", "fsdp", "native",
                                      "colossalai"};
  return with_engine(World{any_model(random), work, any_strategy(random)},
                     kEngines[random() % 5]);
}

/// Worlds that differ from run to run of the seed, never of the test.
template <class Check>
void for_any_world(int count, Check check) {
  constexpr unsigned kSeed = 20240229;
  std::mt19937 random(kSeed);
  for (int i = 0; i < count; ++i) {
    const World world = any_world(random);
    CAPTURE(to_text(world.strategy));
    CAPTURE(std::string(world.engine.name));
    CAPTURE(world.model.layers.size());
    check(world);
  }
}

Bytes sum_of_terms(const MemoryBreakdown& memory) {
  return std::accumulate(memory.terms.begin(), memory.terms.end(), Bytes{});
}

/// More than the padding of six flat buffers of at most 12 bytes an element.
constexpr Bytes kPadding{16 * kKiB};

constexpr std::int64_t kBeyondAnything = std::int64_t{1} << 50;

bool is_well_formed(const Holding& holding) {
  constexpr std::size_t kWord = 4;
  return holding.bytes > Bytes{0} && holding.from <= holding.until &&
         std::string_view(holding.what).size() > kWord &&
         std::string_view(holding.source).size() > kWord;
}

bool is_state(const Holding& holding) {
  return holding.term == Term::parameters || holding.term == Term::gradients ||
         holding.term == Term::optimizer;
}

Bytes all_states(const World& world) {
  Bytes sum;
  for (const Holding& holding : world.ledger_of(0)) {
    if (is_state(holding)) sum += holding.bytes;
  }
  return sum;
}

}  // namespace

// arXiv 2205.05198, figure 1 and table 5: 175B, tensor 8, pipeline 8 with three
// chunks a stage keeps 66.84 GiB of activations on the first stage, 12.35 with
// sequence parallelism and selective recomputation.
TEST_CASE("recomputing the attention core never holds more than keeping it") {
  for_any_world(200, [](World world) {
    world.strategy.recompute = {};
    const MemoryBreakdown kept = world.stage(0);
    world.strategy.recompute = parse_recompute("selective");
    CHECK(world.stage(0).peak() <= kept.peak());
  });
}

TEST_CASE("16-bit weights by name do not change what a stage shards") {
  for (const char* engine : {"colossalai", "deepspeed", "fsdp"}) {
    CAPTURE(engine);
    for (const int batch : {8, 64}) {
      Bytes least{kBeyondAnything};
      for (const char* stage : {"0", "1", "2", "3"}) {
        CAPTURE(stage);
        World small =
            with_engine(world(gpt(2, 256, 4, 1000), workload(256, batch),
                              (std::string("dp=8,zero=") + stage).c_str()),
                        engine);
        small.work.parameter = Precision::bf16;
        small.work.gradient = Precision::bf16;
        CHECK(all_states(small) <= least + kPadding);
        least = all_states(small);
      }
    }
  }
}

// NCCL, src/include/device.h: a channel has 512 KiB of LL, 4.69 MiB of LL128
// and 4 MiB of Simple; 24 of them over NVLink, three times that for a tree.
TEST_CASE("every communicator of a rank is a line of its own") {
  const auto lines = [](const char* strategy) {
    const World any =
        world(gpt(24, 1024, 16, 51200), workload(1024, 64), strategy);
    std::vector<std::pair<std::string, Bytes>> found;
    for (const Holding& holding : any.ledger_of(0)) {
      const std::string what = holding.what;
      if (!what.ends_with(" communicator")) continue;
      CHECK(holding.meter == Meter::driver);
      CHECK(std::string_view(holding.source).starts_with("NCCL, src/"));
      found.emplace_back(what, holding.bytes);
    }
    return found;
  };
  constexpr Bytes kRing{24L * 9420 * kKiB}, kPool{64 * kMiB};
  using Lines = std::vector<std::pair<std::string, Bytes>>;
  CHECK(lines("dp=8") == Lines{{"data communicator", 3 * kRing}});
  CHECK(lines("tp=2,sp=1,pp=2,cp=2,dp=8,ep=4,zero=1") ==
        Lines{{"tensor communicator", kRing},
              {"data communicator", kRing},
              {"context communicator", kPool},
              {"pipeline communicator", kPool},
              {"expert communicator", kPool},
              {"expert data communicator", kRing},
              {"world communicator", kRing}});
  // A rank of most groups: shards within their replicas, experts cut too.
  CHECK(lines("tp=2,sp=1,pp=2,cp=2,dp=8,ep=4,etp=2,zero=1,shard=4").size() ==
        9);
}

// modelscope/ms-swift docs/source_en/LLM/Benchmark.md: LoRA of Qwen 14B,
// samples cut at 512, 1,024 and 2,048 tokens, reserves 30.14, 34.43 and 40.14
// GiB.
TEST_CASE("the allocator keeps what the loss took at other lengths") {
  World packed = with_engine(
      world(gpt(24, 1024, 16, 51200), workload(1024, 64), "recompute=full"),
      "fsdp");
  World varied = packed;
  varied.work.lengths = Lengths::varied;
  const Bytes logits = held(packed, 0, "logits, loss and their gradient");
  CHECK(held(packed, 0, "left by other lengths") == Bytes{});
  CHECK(held(varied, 0, "left by other lengths") == logits);
  CHECK(reserved(varied.stage(0)) - reserved(packed.stage(0)) == logits);
  CHECK(varied.stage(0).allocated == packed.stage(0).allocated);
}

// DeepSpeed, runtime/pipe/engine.py: pipe_buffers['inputs'] are cloned before
// they are computed with, pipe_buffers['outputs'] wait for their backward.
TEST_CASE("a pipeline of DeepSpeed keeps what crosses its stages") {
  const auto pipe = [](const char* strategy) {
    return with_engine(
        world(gpt(24, 1024, 16, 51200), workload(1024, 64), strategy),
        "deepspeed");
  };
  const char* const in = "inputs of micro-batches in flight";
  const char* const out = "outputs of micro-batches in flight";
  constexpr Bytes kBoundary{2 * kMiB};
  const World plain = pipe("pp=4,micro=1");
  for (int stage = 0; stage < 4; ++stage) {
    CAPTURE(stage);
    const int in_flight = 4 - stage;
    CHECK(held(plain, stage, in) == kBoundary * (stage > 0 ? in_flight : 0));
    CHECK(held(plain, stage, out) == kBoundary * (stage < 3 ? in_flight : 0));
  }
  CHECK(held(plain, 3, "logits of the micro-batch before") ==
        Bytes{2L * 1024 * 51200});
  const World cut = pipe("pp=4,tp=2,micro=1");
  CHECK(held(cut, 1, in) == Bytes{});
  CHECK(held(cut, 1, out) == kBoundary * 3 / 2);
  CHECK(held(with_engine(plain, "megatron"), 1, out) == Bytes{});
}

TEST_CASE("interleaved 175B keeps the activations that were published") {
  const World none = gpt3("tp=8,pp=8,vpp=3");
  CHECK(gib(kept_activations(none, 0)) ==
        doctest::Approx(66.84).epsilon(0.002));
  const World selective = gpt3("tp=8,pp=8,vpp=3,sp=1,recompute=selective");
  CHECK(gib(kept_activations(selective, 0)) ==
        doctest::Approx(12.35).epsilon(0.002));
}

TEST_CASE("a stage of 1F1B keeps min(m, p - stage) micro-batches") {
  World world = gpt3("tp=8,pp=8,sp=1,recompute=selective");
  for (const int batch : {1, 3, 8, 64}) {
    world.work.global_batch = batch;
    for (int stage = 0; stage < 8; ++stage) {
      const Bytes one =
          layer_activations(world.model, world.model.layers.front().layer,
                            world.work, world.strategy)
              .saved;
      CHECK(kept_activations(world, stage) ==
            std::int64_t{12} * std::min(batch, 8 - stage) * one);
    }
  }
}

TEST_CASE("GPipe keeps every micro-batch, and every loss") {
  const World gpipe = gpt3("tp=8,pp=8,schedule=gpipe");
  const World in_turn = gpt3("tp=8,pp=8");
  CHECK(kept_activations(gpipe, 0) == 8 * kept_activations(in_turn, 0));
  CHECK(held(gpipe, 7, "losses that wait") ==
        Bytes{63 * std::int64_t{4} * 2048 * 51200 / 8});
  CHECK(held(in_turn, 7, "losses that wait") == Bytes{0});
}

// deepspeedai/DeepSpeed#1378: with one layer a stage, the embedding and the
// head make the end stages hold twice the parameters of the others.
TEST_CASE("the first and the last stage are the heavy ones") {
  const World ends = world(gpt(24, 4096, 32, 50304), workload(1024, 24),
                           "pp=24,recompute=full");
  const auto share = [&](int stage) {
    return static_cast<double>(ends.share(stage).total());
  };
  CHECK(share(0) / share(12) == doctest::Approx(2.02).epsilon(0.02));
  CHECK(share(23) / share(12) == doctest::Approx(2.02).epsilon(0.02));
  CHECK(ends.stage(0).peak() > ends.stage(1).peak());
  CHECK(ends.stage(23).peak() > ends.stage(22).peak());
}

TEST_CASE("full recomputation of some layers lies between none and all") {
  const Bytes none = kept_activations(gpt3("tp=8,pp=8"), 0);
  const Bytes some = kept_activations(gpt3("tp=8,pp=8,recompute=full:4"), 0);
  const Bytes all = kept_activations(gpt3("tp=8,pp=8,recompute=full"), 0);
  CHECK(3 * (none - some) == none - all);
}

TEST_CASE("a rebuilt layer is added to the inputs that are kept") {
  const World full = gpt3("tp=8,pp=8,sp=1,recompute=full");
  const LayerActivations layer = layer_activations(
      full.model, full.model.layers.front().layer, full.work, full.strategy);
  CHECK(kept_activations(full, 0) == 96 * layer.checkpoint);
  CHECK(held(full, 0, "one layer, rebuilt and differentiated") ==
        layer.saved - layer.checkpoint + layer.working);
}

TEST_CASE("the logits are a line of their own, on the last stage alone") {
  const World split = gpt3("tp=8,pp=8");
  CHECK(split.stage(0)[Term::logits] == Bytes{0});
  CHECK(held(split, 7, "logits, loss and their gradient") ==
        Bytes{std::int64_t{6} * 2048 * 51200 / 8});
}

TEST_CASE("meters nest: allocated, reserved, driver") {
  for_any_world(200, [](const World& world) {
    const MemoryBreakdown memory = world.stage(0);
    CHECK(memory.allocated + memory[Term::overhead] == driver_shown(memory));
    CHECK(memory.allocated <= reserved(memory));
    CHECK(reserved(memory) <= driver_shown(memory));
  });
}

TEST_CASE("terms sum to the peak, and the peak is the fullest phase") {
  for_any_world(500, [](const World& world) {
    const Ledger book = world.ledger_of(0);
    const MemoryBreakdown memory = estimate_memory(book, 0);
    const auto phases = phase_bytes(book, Tier::device);
    CHECK(sum_of_terms(memory) == memory.peak());
    CHECK(memory.peak() == *std::ranges::max_element(phases));
    CHECK(memory.peak() == phases[static_cast<std::size_t>(memory.peak_phase)]);
  });
}

TEST_CASE("every holding is positive, named and sourced") {
  for_any_world(200, [](const World& world) {
    for (int stage = 0; stage < world.strategy.pipeline; ++stage) {
      const Ledger book = world.ledger_of(stage);
      CHECK(std::ranges::all_of(book, is_well_formed));
      CHECK(book.size() + 8 <= book.capacity());
    }
  });
}

TEST_CASE("the fullest stage is found among those that can be it") {
  for_any_world(800, [](const World& world) {
    const LayerKinds kinds = layer_kinds(world.model);
    const std::vector<int> candidates =
        fullest_candidates(stage_shapes(kinds, world.strategy), world.strategy);
    const auto all =
        stage_memory(world.setting(), world.engine, world.strategy);
    const auto fullest = std::ranges::max_element(
        all, {}, [](const MemoryBreakdown& memory) { return memory.peak(); });
    CHECK(std::ranges::find(candidates, fullest->stage) != candidates.end());
  });
}

TEST_CASE("a higher ZeRO stage never holds more model states") {
  for_any_world(500, [](World world) {
    world.strategy.offload = {};
    Bytes before = Bytes{INT64_MAX};
    for (world.strategy.zero = 0; world.strategy.zero <= 3;
         ++world.strategy.zero) {
      const Bytes now = all_states(world);
      CHECK(now - kPadding <= before);
      before = now;
    }
  });
}

TEST_CASE("more recomputation never keeps more activations") {
  for_any_world(500, [](World world) {
    Bytes before = Bytes{INT64_MAX};
    for (const char* text :
         {"none", "selective:activation", "selective:activation+norms",
          "selective:activation+norms+attention",
          "selective:activation+norms+attention+mlp+moe+mla_up_proj", "full"}) {
      world.strategy.recompute = parse_recompute(text);
      const Bytes now = kept_activations(world, 0);
      CHECK(now <= before);
      before = now;
    }
  });
}

TEST_CASE("weights divide by tensor and by pipeline") {
  ModelSpec model = llama(24, 2048, 16, 16, 5632, 32768);
  const auto weights = [&](const char* strategy) {
    Bytes sum;
    const World cut = world(model, workload(2048, 32), strategy);
    for (int stage = 0; stage < cut.strategy.pipeline; ++stage)
      sum += cut.stage(stage)[Term::parameters];
    return sum;
  };
  CHECK(weights("pp=4") == weights(""));
  CHECK(weights("pp=8") == weights(""));
  const std::int64_t norms = std::int64_t{2} * (2 * 24 + 1) * 2048;
  CHECK(weights("tp=8") - Bytes{norms} == (weights("") - Bytes{norms}) / 8);
}

TEST_CASE("what leaves the device arrives on its tier") {
  for_any_world(500, [](World world) {
    if (world.strategy.zero == 0) return;
    world.strategy.offload = {};
    const MemoryBreakdown here = world.stage(0);
    CHECK(here.host == Bytes{0});
    CHECK(here.nvme == Bytes{0});
    world.strategy.offload.optimizer = OffloadTier::cpu;
    CHECK(world.stage(0).host >= here[Term::optimizer]);
    world.strategy.offload.optimizer = OffloadTier::nvme;
    CHECK(world.stage(0).nvme >= here[Term::optimizer]);
    CHECK(world.stage(0)[Term::optimizer] == Bytes{0});
  });
}

TEST_CASE("loading replicated takes the whole stage, partitioned a layer") {
  World eight = world(llama3_8b(), workload(2048, 8), "zero=3,dp=8");
  const auto peak = [&](Loading loading) {
    eight.work.loading = loading;
    return load_peak(eight.setting(), eight.engine, eight.share(0),
                     eight.strategy)
        .device;
  };
  const StageShare share = eight.share(0);
  CHECK(peak(Loading::replicated) - peak(Loading::partitioned) ==
        Bytes{2 * (share.total() - share.largest_layer)});
  eight.strategy.zero = 0;  // nothing is cut: what was read is what is kept
  CHECK(peak(Loading::replicated) == peak(Loading::partitioned));
}

TEST_CASE("the largest tensor is named") {
  World llama2 = world(llama(32, 4096, 32, 32, 11008, 32000),
                       workload(4096, 16), "micro=16,recompute=full");
  const auto largest = [&] {
    return largest_tensor(stage_sizes(llama2.setting(), llama2.engine,
                                      layer_kinds(llama2.model),
                                      llama2.strategy));
  };
  CHECK(std::string_view(largest().name) == "logits");
  llama2.work.attention = AttentionKernel::eager;
  CHECK(std::string_view(largest().name) == "attention scores");
  CHECK(largest().bytes == Bytes{32 * kGiB});
}

TEST_CASE("usable memory is what the framework reports less the margin") {
  const ClusterSpec cluster = cluster_of(8);
  CHECK(usable_memory(cluster, 0) == Bytes{80 * kGiB});
  CHECK(usable_memory(cluster, 0.05) == Bytes{76 * kGiB});
}

TEST_CASE("sizes beyond any machine do not overflow") {
  World vast =
      world(llama(5, 10'000, 65'536, 65'536, 1'000'000, 100'000'000),
            workload(100'000'000, 1'000'000), "micro=1000000,schedule=gpipe");
  vast.work.attention = AttentionKernel::eager;
  vast.model.layers.front().layer.attention.head_size = 65'536;
  const MemoryBreakdown memory = vast.stage(0);
  CHECK(memory.peak() > Bytes{kGiB * kMiB});
  CHECK(std::ranges::all_of(memory.terms,
                            [](Bytes term) { return term >= Bytes{0}; }));
}
