#include "step/work.h"

#include <doctest/doctest.h>

using namespace ztplan;

namespace {

AttentionWork attention(std::int64_t tokens, AttentionKernel kernel) {
  return {.sequences = 2,
          .queries = tokens,
          .keys = tokens,
          .heads = 16,
          .kv_heads = 4,
          .qk_size = 128,
          .v_size = 128,
          .kernel = kernel};
}

// Scores a mask leaves, counted one by one.
double visible_scores(std::int64_t tokens, std::int64_t window) {
  double count = 0;
  for (std::int64_t query = 0; query < tokens; ++query)
    for (std::int64_t key = 0; key <= query; ++key)
      if (window == 0 || query - key < window) ++count;
  return count;
}

Bytes sent(CollectiveOp op, int ranks, std::int64_t bytes) {
  return sent_bytes({op, {ranks, 1}, {bytes}});
}

}  // namespace

TEST_CASE("a product multiplies and adds m n k times for each of its batch") {
  CHECK(flops(Matmul{.m = 3, .n = 5, .k = 7, .batch = 11}).value ==
        2.0 * 3 * 5 * 7 * 11);
  CHECK(flops(Matmul{.m = 1'000'000, .n = 1'000'000, .k = 1'000'000}).value ==
        2e18);
}

TEST_CASE("what only moves bytes has no flops") {
  CHECK(flops(Stream{Bytes{1000}}).value == 0);
  CHECK(flops(Transfer{Channel::nvme_read, Bytes{1000}}).value == 0);
  CHECK(flops(Collective{CollectiveOp::all_reduce, {8, 1}, {1000}}).value == 0);
}

TEST_CASE("attention of full rows is 4 s^2 a d forward") {
  AttentionWork work = attention(512, AttentionKernel::eager);
  const double forward = 4.0 * 512 * 512 * 16 * 128 * 2;
  CHECK(flops(work).value == forward);  // the mask hides, but is computed
  work.direction = Direction::backward;
  CHECK(flops(work).value == 2 * forward);
  work.kernel = AttentionKernel::flash;
  work.causal = false;
  CHECK(flops(work).value == 2.5 * forward);
}

TEST_CASE("a flash kernel skips what the mask hides") {
  AttentionWork work = attention(1024, AttentionKernel::flash);
  for (const int window : {0, 1, 100, 128, 1024, 5000}) {
    work.window = window;
    const double expected = 2 * 16 * visible_scores(1024, window);
    // The diagonal is counted as half a score of each query.
    CHECK(computed_scores(work) <= expected);
    CHECK(computed_scores(work) >= expected - 2.0 * 16 * 1024 / 2);
  }
  work.causal = false;
  work.window = 0;
  CHECK(computed_scores(work) == 2.0 * 16 * 1024 * 1024);
  work.window = 100;
  CHECK(computed_scores(work) == 2.0 * 16 * 1024 * 100);
}

TEST_CASE("heads of latent attention count keys and values apart") {
  AttentionWork work = attention(256, AttentionKernel::flash);
  work.causal = false;
  work.qk_size = 192;
  const double scores = 2.0 * 16 * 256 * 256;
  CHECK(flops(work).value == 2 * scores * (192 + 128));
  work.direction = Direction::backward;
  CHECK(flops(work).value == 2 * scores * (3 * 192 + 2 * 128));
}

TEST_CASE("a rank sends the ring's minimum") {
  // Source: nccl-tests, doc/PERFORMANCE.md. 7e9 fp16 gradients over 8 ranks.
  const std::int64_t gradients = 14'000'000'000;
  CHECK(sent(CollectiveOp::all_reduce, 8, gradients).value == 24'500'000'000);
  CHECK(sent(CollectiveOp::all_gather, 8, gradients).value == 12'250'000'000);
  CHECK(sent(CollectiveOp::reduce_scatter, 8, gradients).value ==
        12'250'000'000);
  CHECK(sent(CollectiveOp::all_to_all, 8, gradients).value == 12'250'000'000);
  CHECK(sent(CollectiveOp::send_receive, 2, gradients).value == gradients);
}

TEST_CASE("a group of one sends nothing, a huge one does not overflow") {
  for (const auto op : {CollectiveOp::all_reduce, CollectiveOp::all_gather,
                        CollectiveOp::reduce_scatter, CollectiveOp::all_to_all,
                        CollectiveOp::send_receive})
    CHECK(sent(op, 1, 1 << 20).value == 0);
  CHECK(sent(CollectiveOp::all_reduce, 10'000'000, 2'000'000'000'000).value ==
        2 * (2'000'000'000'000 - 200'000));
}
