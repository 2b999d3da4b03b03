#include <doctest/doctest.h>

#include "support/median_error.h"
#include "support/priced_machine.h"
#include "time/price.h"

using namespace ztplan;

namespace {

AttentionWork causal(std::int64_t tokens) {
  return {.sequences = 1,
          .queries = tokens,
          .keys = tokens,
          .heads = 64,
          .kv_heads = 8,
          .qk_size = 128,
          .v_size = 128};
}

AttentionWork backward(AttentionWork work) {
  work.direction = Direction::backward;
  return work;
}

AttentionWork eager(AttentionWork work) {
  work.kernel = AttentionKernel::eager;
  return work;
}

Seconds on(const char* gpu, const AttentionWork& work) {
  return price(work, node_of(gpu).machine());
}

// TFLOPS with the masked half not counted, as the source counts.
struct Measured {
  const char* gpu;
  std::int64_t tokens;
  double forward, backward;
};

Seconds at(double tera_flops, const AttentionWork& work) {
  return {flops(work).value / (tera_flops * 1e12)};
}

}  // namespace

TEST_CASE("cuDNN's published causal attention is met") {
  // Source: NVIDIA/cudnn-frontend benchmark results, bf16, 64 query and 8
  // key/value heads of 128: H200 with cuDNN 9.19, GB200 and GB300 with 9.22.
  const Measured table[] = {
      {"h200", 2048, 484, 370},     {"h200", 4096, 591, 474},
      {"h200", 8192, 644, 541},     {"h200", 16384, 673, 579},
      {"h200", 32768, 688, 581},    {"gb200", 2048, 1097, 885},
      {"gb200", 4096, 1408, 1148},  {"gb200", 8192, 1574, 1332},
      {"gb200", 16384, 1708, 1328}, {"gb200", 32768, 1622, 1226},
      {"gb300", 2048, 1373, 967},   {"gb300", 4096, 1703, 1248},
      {"gb300", 8192, 1856, 1435},  {"gb300", 16384, 1915, 1507},
      {"gb300", 32768, 1953, 1490}};
  Errors errors;
  for (const Measured& row : table) {
    const AttentionWork work = causal(row.tokens);
    errors.add(on(row.gpu, work), at(row.forward, work));
    errors.add(on(row.gpu, backward(work)), at(row.backward, backward(work)));
  }
  CHECK(errors.count() == 30);
  CHECK(errors.median() < 0.05);
  CHECK(errors.worst() < 0.15);
}

TEST_CASE("FlashAttention-2 on A100 is met") {
  // Source: arXiv 2307.08691: up to 230 TFLOPS forward, about 200 backward.
  const AttentionWork work = causal(16384);
  CHECK(on("a100", work) / at(230, work) == doctest::Approx(1).epsilon(0.1));
  CHECK(on("a100", backward(work)) / at(200, backward(work)) ==
        doctest::Approx(1).epsilon(0.1));
}

TEST_CASE("a causal kernel takes half of a full one, a window less") {
  AttentionWork full = causal(16384);
  full.causal = false;
  CHECK(on("h100", causal(16384)) / on("h100", full) ==
        doctest::Approx(0.5).epsilon(0.01));
  AttentionWork windowed = causal(16384);
  windowed.window = 1024;
  CHECK(on("h100", windowed) < on("h100", causal(16384)) / 3);
}

TEST_CASE("heads of 64 run slower than their flops") {
  AttentionWork small = causal(8192);
  small.heads = 128;
  small.qk_size = small.v_size = 64;
  const double slower = on("h100", small) / on("h100", causal(8192));
  CHECK(slower > 1.15);  // 15 to 30 % of the rate
  CHECK(slower < 1 / 0.7);
}

TEST_CASE("one head leaves most of the device idle") {
  AttentionWork one = causal(2048);
  one.heads = one.kv_heads = 1;
  CHECK(on("h100", causal(2048)) < 64 * on("h100", one) / 3);
}

TEST_CASE("eager attention pays for each score it writes") {
  // 9 bytes forward and 11 backward of every score, at 0.8 of 2.04 TB/s.
  const AttentionWork work = eager(causal(4096));
  const double scores = 64.0 * 4096 * 4096;
  CHECK(on("a100", work).value > 9 * scores / (2039e9 * 0.8));
  CHECK(on("a100", work) > 3 * on("a100", causal(4096)));
  CHECK(on("a100", backward(work)) > on("a100", work));
}

TEST_CASE("no attention gets quicker by longer sequences") {
  for (const char* gpu : {"a100", "b200"}) {
    Seconds before[4]{};
    for (std::int64_t tokens = 128; tokens <= 65536;
         tokens += tokens / 128 * 64) {
      const AttentionWork works[4] = {causal(tokens), backward(causal(tokens)),
                                      eager(causal(tokens)),
                                      eager(backward(causal(tokens)))};
      for (int i = 0; i < 4; ++i) {
        CHECK(on(gpu, works[i]) >= before[i]);
        before[i] = on(gpu, works[i]);
      }
    }
  }
}
