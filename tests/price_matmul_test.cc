#include <doctest/doctest.h>

#include <map>
#include <string>

#include "base/json.h"
#include "base/quantity_text.h"
#include "support/median_error.h"
#include "support/priced_machine.h"
#include "time/price.h"

using namespace ztplan;

namespace {

Matmul square(std::int64_t size, Precision precision) {
  return {.m = size, .n = size, .k = size, .precision = precision};
}

double rate(const Matmul& work, const PricedMachine& on) {
  return flops(work).value / price(work, on.machine()).value;
}

}  // namespace

TEST_CASE("published products are met: tests/published/matmul.json") {
  const JsonView file =
      JsonView::load(ZTPLAN_SOURCE_DIR "/tests/published/matmul.json");
  std::map<std::string, Errors> by_device;
  for (std::size_t i = 0; i < file.at("rows").size(); ++i) {
    const JsonView row = file.at("rows")[i];
    const std::string device = row.at("device").string();
    PricedMachine on = node_of(device);
    on.calibration.matmul_loaded.value = 1;  // graphs of six runs each
    const Matmul work{.m = row.at("m").integer(),
                      .n = row.at("n").integer(),
                      .k = row.at("k").integer()};
    by_device[device].add(price(work, on.machine()),
                          parse_seconds(row.at("time").string()));
  }
  CHECK(by_device.size() == 8);
  for (const auto& entry : by_device) {
    const std::string& device = entry.first;
    const Errors& errors = entry.second;
    CAPTURE(device);
    CHECK(errors.count() == 15);
    CHECK(errors.median() < (device == "l40s" ? 0.15 : 0.12));
    CHECK(std::abs(errors.bias()) < 0.08);
  }
}

TEST_CASE("large products reach the sustained share of peak, none exceeds it") {
  for (const char* gpu : {"a100", "h100", "h200", "b200", "gb300"}) {
    CAPTURE(gpu);
    const PricedMachine on = node_of(gpu);
    const double attained =
        rate(square(16384, Precision::bf16), on) / on.cluster.device.bf16.value;
    const double share =
        on.calibration.matmul_share.value * on.calibration.matmul_loaded.value;
    CHECK(attained <= share);
    CHECK(attained > 0.99 * share);
  }
}

TEST_CASE("a tile more than a wave costs a wave") {
  // 132 multiprocessors and tiles of 128 x 256: 33 x 4 tiles, then 33 x 5.
  const PricedMachine h100 = node_of("h100");
  const Matmul full{.m = 4224, .n = 1024, .k = 8192};
  const Matmul more{.m = 4224, .n = 1032, .k = 8192};
  CHECK(price(more, h100.machine()) > 1.15 * price(full, h100.machine()));
}

TEST_CASE("a product of short rows is bound by memory") {
  const PricedMachine a100 = node_of("a100");
  const Matmul thin{.m = 8, .n = 16384, .k = 16384};
  const Seconds bytes{2.0 * 16384 * 16384 / (2039e9 * 0.8)};
  CHECK(price(thin, a100.machine()) > bytes);
  CHECK(price(thin, a100.machine()) < 1.1 * bytes);
}

TEST_CASE("a size that is no multiple of 8 costs three times") {
  // GPT-2's 50257 rows of vocabulary, VIA-Research/vTrain: 8.2 ms against 3.0.
  const PricedMachine a100 = node_of("a100");
  const Matmul padded{.m = 1024, .n = 50304, .k = 2048};
  const Matmul odd{.m = 1024, .n = 50257, .k = 2048};
  const double ratio =
      price(odd, a100.machine()) / price(padded, a100.machine());
  CHECK(ratio > 2.5);
  CHECK(ratio < 3.5);
}

TEST_CASE("a device multiplies a precision on the units it has") {
  const PricedMachine v100 = node_of("v100"), a100 = node_of("a100"),
                      h100 = node_of("h100");
  const auto seconds = [](const PricedMachine& on, Precision precision) {
    return price(square(8192, precision), on.machine()).value;
  };
  CHECK(seconds(h100, Precision::fp8) < 0.65 * seconds(h100, Precision::bf16));
  CHECK(seconds(a100, Precision::fp8) == seconds(a100, Precision::bf16));
  CHECK(seconds(v100, Precision::fp16) <
        0.2 * seconds(v100, Precision::bf16));  // which runs as fp32
  CHECK(seconds(v100, Precision::bf16) == seconds(v100, Precision::fp32));
}

TEST_CASE("a batch is priced as so many products in one launch") {
  const PricedMachine h100 = node_of("h100");
  Matmul work = square(4096, Precision::bf16);
  const Seconds one = price(work, h100.machine());
  work.batch = 6;
  CHECK(price(work, h100.machine()) < 6 * one);
  CHECK(price(work, h100.machine()) > 5.5 * one);
}

TEST_CASE("no product gets quicker by being larger") {
  const PricedMachine b200 = node_of("b200");
  for (const std::int64_t other : {64, 1000, 4096}) {
    Seconds before[3]{};
    for (std::int64_t size = 8; size < 20'000; size += 8 + size / 24 * 8) {
      const Matmul grown[3]{{.m = size, .n = other, .k = other},
                            {.m = other, .n = size, .k = other},
                            {.m = other, .n = other, .k = size}};
      for (int i = 0; i < 3; ++i) {
        const Seconds now = price(grown[i], b200.machine());
        CHECK(now >= before[i]);
        before[i] = now;
      }
    }
  }
}

TEST_CASE("fp4 products are quicker than fp8 ones, and half as wide") {
  PricedMachine on = node_of("gb200");
  on.cluster.device.fp4 = 2 * on.cluster.device.fp8;
  const Matmul wide = square(16384, Precision::fp8);
  const Matmul narrow = square(16384, Precision::fp4);
  CHECK(rate(narrow, on) > 1.3 * rate(wide, on));
  CHECK(rate(narrow, on) < on.cluster.device.fp4.value);
  // A row by a matrix is as quick as its weights are read: half a byte each.
  const Matmul row{.m = 1, .n = 65536, .k = 65536, .precision = Precision::fp4};
  const Seconds read =
      Bytes{65536LL * 65536 / 2} /
      (on.cluster.device.memory_bandwidth * on.calibration.memory_share.value);
  CHECK(price(row, on.machine()) > read);
}

TEST_CASE("fp4 products run as fp8 where a device has no fp4") {
  const PricedMachine on = node_of("h100");
  CHECK(price(square(8192, Precision::fp4), on.machine()) <=
        price(square(8192, Precision::fp8), on.machine()));
}
