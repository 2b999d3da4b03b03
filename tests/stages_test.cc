#include "strategy/stages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

using namespace ztplan;

namespace {

using Counts = std::vector<int>;

Counts chunks_of(int layers, const char* strategy) {
  return chunk_layers(layers, parse_strategy(strategy, 0));
}

LayerKinds kinds_of(int first, int second) {
  LayerKinds kinds;
  kinds.kinds.resize(2);
  kinds.kind_of_layer.assign(static_cast<std::size_t>(first), 0);
  kinds.kind_of_layer.insert(kinds.kind_of_layer.end(),
                             static_cast<std::size_t>(second), 1);
  return kinds;
}

// Micro-batches held, walking the order of one stage's passes.
int walked_peak(int warm_up, int passes) {
  int held = 0;
  int peak = 0;
  for (int forward = 0; forward < passes; ++forward) {
    peak = std::max(peak, ++held);
    if (forward >= warm_up) --held;  // a backward follows in steady state
  }
  return peak;
}

}  // namespace

TEST_CASE("layers divide evenly, around the ends, or as told") {
  CHECK(chunks_of(96, "pp=8") == Counts(8, 12));
  CHECK(chunks_of(96, "pp=8,vpp=3") == Counts(24, 4));
  CHECK(chunks_of(30, "pp=4,stages=ends") == Counts{7, 8, 8, 7});
  CHECK(chunks_of(126, "pp=16,stages=ends").front() == 7);
  CHECK(chunks_of(30, "stages=ends") == Counts{30});
  CHECK(chunks_of(30, "pp=4,stages=7-8-8-7") == Counts{7, 8, 8, 7});
  CHECK(chunks_of(12, "pp=2,vpp=2,stages=4-8") == Counts{2, 4, 2, 4});
  CHECK(chunks_of(13, "pp=2,vpp=2,stages=3-4-4-2") == Counts{3, 4, 4, 2});
  CHECK(chunks_of(8, "pp=4,stages=0-4-4-0") == Counts{0, 4, 4, 0});
}

TEST_CASE("layers that do not divide have no chunks") {
  CHECK(chunks_of(30, "pp=4").empty());
  CHECK(chunks_of(96, "pp=8,stages=ends").empty());
  CHECK(chunks_of(4, "pp=8").empty());
  CHECK(chunks_of(30, "pp=4,stages=7-8-8-8").empty());
  CHECK(chunks_of(30, "pp=3,stages=7-8-8-7").empty());
  CHECK(chunks_of(30, "pp=4,vpp=2,stages=7-8-8-7").empty());
  CHECK(chunks_of(8, "pp=4,stages=4-0-0-4").empty());
  CHECK(chunks_of(96, "pp=1000000,vpp=1000000").empty());
  Strategy both = parse_strategy("pp=4,stages=7-8-8-7", 0);
  both.ends_as_layers = true;
  CHECK(chunk_layers(30, both).empty());
}

TEST_CASE("every layer lies on exactly one chunk") {
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    Strategy s;
    s.pipeline = 1 + static_cast<int>(random() % 12);
    s.virtual_stages = 1 + static_cast<int>(random() % 4);
    s.ends_as_layers = random() % 2 == 0;
    const int layers = 1 + static_cast<int>(random() % 130);
    const Counts counts = chunk_layers(layers, s);
    CAPTURE(layers);
    CAPTURE(to_text(s));
    REQUIRE(counts.empty() == !layers_divide(layers, s));
    if (counts.empty()) continue;
    REQUIRE(std::accumulate(counts.begin(), counts.end(), 0) == layers);
    REQUIRE(std::ssize(counts) == s.pipeline * s.virtual_stages);
    REQUIRE(most_chunk_layers(layers, s) ==
            *std::max_element(counts.begin(), counts.end()));
  }
}

TEST_CASE("the fullest chunk of a list is found") {
  const struct {
    const char* strategy;
    int most;
  } rows[] = {{"pp=2,vpp=2,stages=4-8", 4},
              {"pp=2,vpp=2,stages=2-4-1-5", 5},
              {"pp=4,stages=3-3-4-2", 4}};
  for (const auto& row : rows) {
    CHECK(most_chunk_layers(12, parse_strategy(row.strategy, 0)) == row.most);
  }
}

TEST_CASE("chunks run through the stages in turn") {
  const auto stages =
      stage_shapes(kinds_of(3, 13), parse_strategy("pp=4,vpp=2", 0));
  REQUIRE(stages.size() == 4);
  CHECK(stages[0].chunks[0].layers_of_kind == Counts{2, 0});
  CHECK(stages[1].chunks[0].layers_of_kind == Counts{1, 1});
  CHECK(stages[1].chunks[1].layers_of_kind == Counts{0, 2});
  CHECK(stages[0].has_embedding());
  CHECK_FALSE(stages[0].has_head());
  CHECK(stages[3].chunks[1].has_head);
  CHECK_FALSE(stages[3].chunks[0].has_head);
  CHECK(stages[2].layers() == 4);
}

TEST_CASE("a V holds both ends of the model on its first stage") {
  const Strategy v = parse_strategy("pp=4,schedule=zb-v", 0);
  CHECK(v.virtual_stages == 2);
  const auto stages = stage_shapes(kinds_of(3, 13), v);
  CHECK(stages[0].chunks[0].has_embedding);
  CHECK(stages[0].chunks[1].has_head);
  CHECK(stages[1].chunks[0].layers_of_kind == Counts{1, 1});
  for (int u = 0; u < 8; ++u) {
    const int stage = stage_of(v, u);
    CHECK(stage == std::min(u, 7 - u));
    CHECK(virtual_stage(v, stage, u / 4) == u);
  }
  // A list of stages names both chunks of each.
  CHECK(chunks_of(16, "pp=2,schedule=zb-v,stages=4-12") == Counts{2, 6, 6, 2});
}

TEST_CASE("chunks in flight follow the schedule") {
  const struct {
    const char* strategy;
    int stage, micro_batches, held;
  } rows[] = {
      {"pp=4,schedule=gpipe", 0, 9, 9},
      {"pp=4", 0, 9, 4},
      {"pp=4", 3, 9, 1},
      {"pp=4", 0, 2, 2},
      {"pp=1", 0, 8, 1},
      {"pp=4,vpp=2", 0, 8, 11},  // 2*3 + 4 + 1
      {"pp=4,vpp=2", 3, 8, 5},
      {"pp=4,vpp=2", 0, 4, 8},  // all there are
  };
  for (const auto& row : rows) {
    CAPTURE(row.strategy);
    CAPTURE(row.stage);
    CHECK(chunks_in_flight(parse_strategy(row.strategy, 0), row.stage,
                           row.micro_batches) == row.held);
  }
}

// Warm-up lengths: Megatron-LM, megatron/core/pipeline_parallel/schedules.py.
TEST_CASE("chunks in flight equal a walk through the passes") {
  for (int p = 1; p <= 6; ++p) {
    for (int v = 1; v <= 3; ++v) {
      Strategy s;
      s.pipeline = p;
      s.virtual_stages = v;
      s.schedule = v > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
      for (int m = p; m <= 3 * p; m += p) {
        for (int stage = 0; stage < p; ++stage) {
          const int after = p - stage - 1;
          const int warm_up = v > 1 ? 2 * after + (v - 1) * p : after;
          CHECK(chunks_in_flight(s, stage, m) == walked_peak(warm_up, m * v));
        }
      }
    }
  }
}
