#include "spec/calibration.h"

#include <doctest/doctest.h>

#include "support/priced_machine.h"
#include "time/price.h"

using namespace ztplan;

namespace {

DeviceSpec device(const char* id, const char* architecture) {
  DeviceSpec made;
  made.id = id;
  made.architecture = architecture;
  return made;
}

}  // namespace

TEST_CASE("a device's own constants come before its architecture's") {
  const auto share = [](const char* id, const char* architecture) {
    return published_calibration(device(id, architecture)).matmul_share.value;
  };
  CHECK(share("h100-sxm-80gb", "Hopper") == 0.73);
  CHECK(share("h200-sxm-141gb", "Hopper") == 0.68);
  CHECK(share("somebody's card", "Hopper") == 0.73);
  CHECK(share("somebody's card", "never heard of") == 0.70);
}

TEST_CASE("what only its best product is known of follows from that") {
  DeviceSpec made = device("mi300x", "CDNA3");
  made.bf16 = {1307.4e12};
  made.matmul_achieved = {668e12};
  made.trust = Trust::stored;
  const Constant share = published_calibration(made).matmul_share;
  CHECK(share.value == doctest::Approx(0.88 * 668 / 1307.4));
  CHECK(share.trust == Trust::stored);
  CHECK(share.low < share.value);
  CHECK(share.value < share.high);
}

TEST_CASE("every constant has a source, and a guess says so") {
  const Calibration unknown = published_calibration(device("?", "?"));
  CHECK(unknown.matmul_share.trust == Trust::assumed);
  CHECK(!unknown.matmul_share.source.empty());
  const Calibration h100 = published_calibration(device("h100-sxm-80gb", "?"));
  CHECK(h100.matmul_share.trust == Trust::measured);
  CHECK(h100.name == "published");
}

TEST_CASE("the ends of the bands are a quicker and a slower machine") {
  const PricedMachine h100 = node_of("h100");
  const Calibration fast = optimistic(h100.calibration);
  const Calibration slow = pessimistic(h100.calibration);
  CHECK(fast.matmul_share.value == h100.calibration.matmul_share.high);
  CHECK(slow.matmul_share.value == h100.calibration.matmul_share.low);
  CHECK(fast.matmul_start.value == h100.calibration.matmul_start.low);
  CHECK(slow.matmul_start.value == h100.calibration.matmul_start.high);

  const AttentionWork attention{.sequences = 2,
                                .queries = 4096,
                                .keys = 4096,
                                .heads = 8,
                                .kv_heads = 8,
                                .qk_size = 128,
                                .v_size = 128};
  const Work works[] = {
      Matmul{.m = 4096, .n = 1536, .k = 12288},
      Matmul{.m = 4096, .n = 1530, .k = 12288},
      Matmul{.m = 4096, .n = 4096, .k = 4096, .precision = Precision::fp8},
      attention,
      Stream{Bytes{100'000'000}},
      Collective{CollectiveOp::all_reduce, {8, 1}, {1'000'000}},
      Collective{CollectiveOp::all_gather, {8, 1}, {100'000'000}},
      Collective{CollectiveOp::all_to_all, {8, 1}, {100'000'000}}};
  for (const Work& work : works) {
    CAPTURE(work.index());
    const Seconds likely = price(work, h100.machine());
    CHECK(price(work, {h100.cluster, fast}) < likely);
    CHECK(price(work, {h100.cluster, slow}) > likely);
  }
}

TEST_CASE("a slow device takes as much longer, its links do not") {
  PricedMachine on = node_of("h100");
  const Calibration slow = slowed(on.calibration, 0.8);
  const auto slower = [&](const Work& work) {
    return price(work, {on.cluster, slow}) / price(work, on.machine());
  };
  CHECK(slower(Matmul{.m = 16384, .n = 16384, .k = 16384}) ==
        doctest::Approx(1 / 0.8).epsilon(0.01));
  CHECK(slower(Stream{Bytes{1'000'000'000}}) ==
        doctest::Approx(1 / 0.8).epsilon(0.01));
  CHECK(slower(Collective{CollectiveOp::all_reduce, {8, 1}, {1'000'000'000}}) ==
        doctest::Approx(1));
  CHECK(optimistic(slow).matmul_share.value ==
        doctest::Approx(0.8 * optimistic(on.calibration).matmul_share.value));
}
