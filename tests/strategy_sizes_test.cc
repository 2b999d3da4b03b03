#include <doctest/doctest.h>

#include <climits>

#include "base/error.h"
#include "strategy/strategy.h"

using namespace ztplan;

TEST_CASE("a strategy counts its devices, and stops at what an int holds") {
  CHECK(devices(parse_strategy("tp=8,cp=2,dp=4,pp=16", 0)) == 1024);
  CHECK(devices(parse_strategy("tp=8,ep=8,vpp=4", 0)) == 8);
  Strategy huge;
  huge.tensor = huge.context = huge.data = huge.pipeline = kMaxSize;
  CHECK(devices(huge) == INT_MAX);
}

TEST_CASE("micro-batches are the global batch over replicas and micro-batch") {
  Workload workload;
  workload.global_batch = 1536;
  CHECK(micro_batches(parse_strategy("dp=16,micro=4", 0), workload) == 24);
  CHECK_THROWS_AS(micro_batches(parse_strategy("dp=7", 0), workload), Bug);
}

TEST_CASE("model states are shared by the shard group, alone without ZeRO") {
  CHECK(zero_group(parse_strategy("dp=16,cp=2", 0)) == 1);
  CHECK(zero_group(parse_strategy("dp=16,cp=2,zero=1", 0)) == 32);
  CHECK(zero_group(parse_strategy("dp=16,cp=2,zero=3,shard=8", 0)) == 8);
}

TEST_CASE("experts repeat on every rank beyond the expert group") {
  CHECK(expert_data(parse_strategy("tp=2,cp=2,dp=16,pp=4,ep=8", 0)) == 8);
  CHECK(expert_data(parse_strategy("dp=16", 0)) == 16);
  CHECK(expert_data(parse_strategy("tp=4,dp=16,ep=4,etp=4", 0)) == 4);
  CHECK(expert_data(parse_strategy("dp=2,ep=4,etp=4", 0)) == 1);
}
