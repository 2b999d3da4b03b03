#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/tensors.h"

using namespace ztplan;

namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

struct Case {
  const char* name;
  std::int64_t sequences, queries, keys, heads, kv_heads, qk_size, v_size;
  bool causal;
  std::int64_t window;
  std::int32_t first_query, first_key;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> cases{
      {"one token", 1, 1, 1, 1, 1, 1, 1, true, 0, 0, 0},
      {"causal", 2, 5, 5, 2, 2, 4, 4, true, 0, 0, 0},
      {"all keys", 1, 3, 7, 2, 2, 3, 5, false, 0, 0, 0},
      {"grouped queries", 2, 7, 7, 6, 2, 3, 2, true, 0, 0, 0},
      {"one key head", 1, 6, 6, 4, 1, 2, 3, true, 0, 0, 0},
      {"window", 1, 9, 9, 2, 1, 3, 3, true, 3, 0, 0},
      {"later queries", 1, 4, 9, 2, 2, 3, 3, true, 0, 5, 0},
      {"queries without a key", 1, 6, 4, 2, 2, 3, 3, true, 0, 0, 3},
      {"no query sees a key", 1, 3, 4, 1, 1, 3, 3, true, 0, 0, 10},
      {"no keys", 1, 3, 0, 1, 1, 3, 3, true, 0, 0, 0},
  };
  return cases;
}

/// Longer than the tiles of any processor, and no multiple of them.
const Case kLong{"long", 1, 150, 150, 2, 1, 19, 21, true, 0, 0, 0};
const Case kLongWindow{"long, window", 1,  150, 150, 2, 2, 9, 35,
                       true,           70, 0,   0};
const Case kLongAll{"long, all keys", 1, 101, 203, 1, 1, 17, 8, false, 0, 0, 0};

std::vector<std::int32_t> positions(std::int64_t size, std::int32_t first) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), first);
  return all;
}

Indices indices(std::vector<std::int32_t>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size())};
}

/// An attention with its memory.
struct World {
  Case shape;
  std::vector<std::int32_t> query_positions, key_positions;
  Tensor q, k, v, out, log_sum, delta, out_gradient, q_gradient, k_gradient,
      v_gradient, probabilities;
  float scale = 0.7F;

  World(const Case& one, Precision dtype)
      : shape(one),
        query_positions(positions(one.queries, one.first_query)),
        key_positions(positions(one.keys, one.first_key)),
        q(rows(one.queries, one.heads * one.qk_size, dtype)),
        k(rows(one.keys, one.kv_heads * one.qk_size, dtype)),
        v(rows(one.keys, one.kv_heads * one.v_size, dtype)),
        out(rows(one.queries, one.heads * one.v_size, dtype)),
        log_sum(statistic()),
        delta(statistic()),
        out_gradient(rows(one.queries, one.heads * one.v_size, dtype)),
        q_gradient(q),
        k_gradient(k),
        v_gradient(v),
        probabilities(one.sequences * one.heads * one.queries, one.keys,
                      one.keys, dtype) {
    q.fill(1);
    k.fill(2);
    v.fill(3);
    out_gradient.fill(4);
  }
  Tensor rows(std::int64_t tokens, std::int64_t columns,
              Precision dtype) const {
    return {shape.sequences * tokens, columns, columns + 5, dtype};
  }
  Tensor statistic() const {
    return zero_tensor(shape.sequences * shape.heads, shape.queries);
  }
  kernels::AttentionShape attention() {
    return {.sequences = shape.sequences,
            .queries = shape.queries,
            .keys = shape.keys,
            .heads = shape.heads,
            .kv_heads = shape.kv_heads,
            .qk_size = shape.qk_size,
            .v_size = shape.v_size,
            .causal = shape.causal,
            .window = shape.window,
            .query_positions = indices(query_positions),
            .key_positions = indices(key_positions),
            .scale = scale};
  }
  void forward(bool keep) {
    run_on_cpu(kernels::AttentionForward{
        attention(), q.matrix(), k.matrix(), v.matrix(), out.matrix(),
        log_sum.array(), keep ? probabilities.array() : Array{}});
  }
  void backward(bool kept, bool accumulate) {
    run_on_cpu(kernels::AttentionDelta{out.matrix(), out_gradient.matrix(),
                                       delta.array(), shape.heads,
                                       shape.sequences});
    run_on_cpu(kernels::AttentionBackward{
        attention(), q.matrix(), k.matrix(), v.matrix(), out_gradient.matrix(),
        log_sum.array(), delta.array(), kept ? probabilities.array() : Array{},
        q_gradient.matrix(), k_gradient.matrix(), v_gradient.matrix(),
        accumulate});
  }
};

struct Answer {
  Doubles out, log_sum, probabilities;
};

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// softmax(scale q k^T) v as the definition says, in double.
Answer slow_attention(const World& world, const Doubles& q, const Doubles& k,
                      const Doubles& v) {
  const Case& c = world.shape;
  Answer answer;
  answer.out.resize(at(c.sequences * c.queries * c.heads * c.v_size));
  for (std::int64_t s = 0; s < c.sequences; ++s)
    for (std::int64_t h = 0; h < c.heads; ++h)
      for (std::int64_t i = 0; i < c.queries; ++i) {
        const std::int64_t kv = h * c.kv_heads / c.heads;
        const std::int64_t query = (s * c.queries + i) * c.heads + h;
        Doubles scores(at(c.keys), kNothing);
        for (std::int64_t j = 0; j < c.keys; ++j) {
          const int far =
              world.query_positions[at(i)] - world.key_positions[at(j)];
          if (c.causal && (far < 0 || (c.window > 0 && far >= c.window)))
            continue;
          double sum = 0;
          for (std::int64_t d = 0; d < c.qk_size; ++d)
            sum += q[at(query * c.qk_size + d)] *
                   k[at(((s * c.keys + j) * c.kv_heads + kv) * c.qk_size + d)];
          scores[at(j)] = double{world.scale} * sum;
        }
        double total = 0;
        for (const double score : scores) total += std::exp(score);
        answer.log_sum.push_back(std::log(total));
        for (std::int64_t j = 0; j < c.keys; ++j) {
          const double p = total == 0 ? 0 : std::exp(scores[at(j)]) / total;
          answer.probabilities.push_back(p);
          for (std::int64_t d = 0; d < c.v_size; ++d)
            answer.out[at(query * c.v_size + d)] +=
                p * v[at(((s * c.keys + j) * c.kv_heads + kv) * c.v_size + d)];
        }
      }
  return answer;
}

struct Gradients {
  Doubles q, k, v;
};

/// Slopes of out . out_gradient.
Gradients slow_gradients(const World& world) {
  const Doubles q = world.q.values(), k = world.k.values(),
                v = world.v.values(), pull = world.out_gradient.values();
  const auto pulled = [&](const Doubles& a, const Doubles& b,
                          const Doubles& c) {
    return dot(slow_attention(world, a, b, c).out, pull);
  };
  return {slopes([&](const Doubles& x) { return pulled(x, k, v); }, q),
          slopes([&](const Doubles& x) { return pulled(q, x, v); }, k),
          slopes([&](const Doubles& x) { return pulled(q, k, x); }, v)};
}

void check_forward(const Case& one, Precision dtype, bool keep, double bound) {
  World world(one, dtype);
  const Answer answer = slow_attention(world, world.q.values(),
                                       world.k.values(), world.v.values());
  world.forward(keep);
  CAPTURE(one.name);
  CAPTURE(keep);
  CHECK(distance(world.out.values(), answer.out) < bound);
  CHECK(world.out.gaps_untouched());
  CHECK(distance(world.log_sum.values(), answer.log_sum) < 1e-5);
  if (!keep) return;
  CHECK(distance(world.probabilities.values(), answer.probabilities) < bound);
}

void check_backward(const Case& one, Precision dtype, bool keep, double bound) {
  World world(one, dtype);
  const Gradients expected = slow_gradients(world);
  world.forward(keep);
  world.backward(keep, false);
  CAPTURE(one.name);
  CAPTURE(keep);
  CHECK(distance(world.q_gradient.values(), expected.q) < bound);
  CHECK(distance(world.k_gradient.values(), expected.k) < bound);
  CHECK(distance(world.v_gradient.values(), expected.v) < bound);
  CHECK(world.q_gradient.gaps_untouched());
  CHECK(world.k_gradient.gaps_untouched());
  CHECK(world.v_gradient.gaps_untouched());
}

/// `rows` rows of each sequence of `world`'s keys from `from` on, as a ring
/// hands them around. One sequence.
kernels::AttentionShape block_of(World& world, std::int64_t from,
                                 std::int64_t rows) {
  kernels::AttentionShape shape = world.attention();
  shape.keys = rows;
  shape.key_positions = {world.key_positions.data() + from, rows};
  return shape;
}

}  // namespace

TEST_CASE("an attention equals its definition, whatever its mask") {
  for (const bool keep : {false, true}) {
    for (const Case& one : cases()) {
      check_forward(one, Precision::fp32, keep, 2e-6);
      // Of values below 1, half a last place is 2^-9 and 2^-12; probabilities
      // that are kept were rounded by as much before they met the values.
      const double roundings = keep ? 2 : 1;
      check_forward(one, Precision::bf16, keep, roundings * 0x1p-9 + 1e-5);
      check_forward(one, Precision::fp16, keep, roundings * 0x1p-12 + 1e-5);
    }
    for (const Case& one : {kLong, kLongWindow, kLongAll}) {
      check_forward(one, Precision::fp32, keep, 2e-6);
    }
  }
}

TEST_CASE("an attention's gradients are slopes of its definition") {
  for (const bool keep : {false, true}) {
    for (const Case& one : cases()) {
      check_backward(one, Precision::fp32, keep, 5e-6);
      // Gradients below 4 round by 2^-8 of it; `out`, and probabilities kept,
      // were rounded before and add as much again.
      check_backward(one, Precision::bf16, keep, 0.04);
      check_backward(one, Precision::fp16, keep, 0.005);
    }
  }
}

TEST_CASE("a long attention's gradients are those of all its parts") {
  // Cut into single queries, which no tile cuts, the gradients of keys add.
  for (const Case& one : {kLong, kLongWindow, kLongAll}) {
    World world(one, Precision::fp32);
    world.forward(false);
    world.backward(false, false);
    World parts(one, Precision::fp32);
    parts.forward(false);
    run_on_cpu(
        kernels::AttentionDelta{parts.out.matrix(), parts.out_gradient.matrix(),
                                parts.delta.array(), one.heads, one.sequences});
    for (std::int64_t i = 0; i < one.queries; ++i) {
      Tensor log_sum = zero_tensor(one.heads, 1), delta = log_sum;
      Doubles of_log_sum, of_delta;
      for (std::int64_t h = 0; h < one.heads; ++h) {
        of_log_sum.push_back(parts.log_sum.values()[at(h * one.queries + i)]);
        of_delta.push_back(parts.delta.values()[at(h * one.queries + i)]);
      }
      log_sum.set(of_log_sum);
      delta.set(of_delta);
      kernels::AttentionShape shape = parts.attention();
      shape.queries = 1;
      shape.query_positions = {parts.query_positions.data() + i, 1};
      run_on_cpu(kernels::AttentionBackward{
          shape, rows_of(parts.q.matrix(), i, 1), parts.k.matrix(),
          parts.v.matrix(), rows_of(parts.out_gradient.matrix(), i, 1),
          log_sum.array(), delta.array(), Array{},
          rows_of(parts.q_gradient.matrix(), i, 1), parts.k_gradient.matrix(),
          parts.v_gradient.matrix(), true});
    }
    CAPTURE(one.name);
    CHECK(distance(world.q_gradient.values(), parts.q_gradient.values()) <
          1e-5);
    CHECK(distance(world.k_gradient.values(), parts.k_gradient.values()) <
          1e-5);
    CHECK(distance(world.v_gradient.values(), parts.v_gradient.values()) <
          1e-5);
  }
}

TEST_CASE("an attention's gradients are added to, or written over") {
  World world(cases()[3], Precision::fp32);
  world.forward(false);
  world.q_gradient.fill(9);
  world.backward(false, false);
  const Doubles once = world.q_gradient.values();
  world.backward(false, true);
  const Doubles twice = world.q_gradient.values();
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == 2 * once[i]);
}

TEST_CASE("blocks of keys merged are the whole, forth and back") {
  for (const Case& one : {cases()[3], kLong, kLongWindow, cases()[7]}) {
    Case single = one;
    single.sequences = 1;
    World whole(single, Precision::fp32), ring(single, Precision::fp32);
    whole.forward(false);
    whole.backward(false, false);
    Tensor part = ring.rows(single.queries, single.heads * single.v_size,
                            Precision::fp32);
    Tensor part_log_sum = ring.statistic();
    const std::int64_t cut = single.keys / 3;
    const auto forward = [&](std::int64_t from, std::int64_t rows, Tensor& out,
                             Tensor& log_sum) {
      run_on_cpu(
          kernels::AttentionForward{block_of(ring, from, rows), ring.q.matrix(),
                                    rows_of(ring.k.matrix(), from, rows),
                                    rows_of(ring.v.matrix(), from, rows),
                                    out.matrix(), log_sum.array(), Array{}});
    };
    forward(cut, single.keys - cut, ring.out, ring.log_sum);
    forward(0, cut, part, part_log_sum);
    run_on_cpu(kernels::MergeAttention{ring.out.matrix(), part.matrix(),
                                       ring.log_sum.array(),
                                       part_log_sum.array(), single.heads, 1});
    CAPTURE(single.name);
    CHECK(distance(ring.out.values(), whole.out.values()) < 2e-6);
    CHECK(distance(ring.log_sum.values(), whole.log_sum.values()) < 2e-6);
    run_on_cpu(kernels::AttentionDelta{ring.out.matrix(),
                                       ring.out_gradient.matrix(),
                                       ring.delta.array(), single.heads, 1});
    for (const std::int64_t from : {std::int64_t{0}, cut}) {
      const std::int64_t rows = from == 0 ? cut : single.keys - cut;
      run_on_cpu(kernels::AttentionBackward{
          block_of(ring, from, rows), ring.q.matrix(),
          rows_of(ring.k.matrix(), from, rows),
          rows_of(ring.v.matrix(), from, rows), ring.out_gradient.matrix(),
          ring.log_sum.array(), ring.delta.array(), Array{},
          ring.q_gradient.matrix(),
          rows_of(ring.k_gradient.matrix(), from, rows),
          rows_of(ring.v_gradient.matrix(), from, rows), true});
    }
    CHECK(distance(ring.q_gradient.values(), whole.q_gradient.values()) < 1e-5);
    CHECK(distance(ring.k_gradient.values(), whole.k_gradient.values()) < 1e-5);
    CHECK(distance(ring.v_gradient.values(), whole.v_gradient.values()) < 1e-5);
  }
}

TEST_CASE("an attention run again gives the same bits") {
  World world(kLong, Precision::bf16), again(kLong, Precision::bf16);
  for (World* one : {&world, &again}) {
    one->forward(false);
    one->backward(false, false);
  }
  CHECK(world.out.bytes() == again.out.bytes());
  CHECK(world.log_sum.bytes() == again.log_sum.bytes());
  CHECK(world.q_gradient.bytes() == again.q_gradient.bytes());
  CHECK(world.k_gradient.bytes() == again.k_gradient.bytes());
  CHECK(world.v_gradient.bytes() == again.v_gradient.bytes());
}
