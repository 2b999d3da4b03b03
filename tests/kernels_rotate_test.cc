#include <doctest/doctest.h>

#include <cmath>

#include "support/tensors.h"

using namespace ztplan;

namespace {

constexpr std::int64_t kHeads = 3, kHeadSize = 6, kColumns = kHeads * kHeadSize;
constexpr double kBase = 500;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

std::vector<std::int32_t> places() { return {0, 1, 2, 7, 1000}; }

void rotate(Tensor& x, bool inverse) {
  std::vector<std::int32_t> positions = places();
  run_on_cpu(kernels::Rotate{
      x.matrix(),
      {positions.data(), static_cast<std::int64_t>(positions.size())},
      kHeadSize,
      kBase,
      inverse});
}

/// arXiv 2104.09864, equation 34, over halves of a head.
Doubles slow_rotation(const Doubles& x) {
  Doubles out(x.size());
  constexpr std::int64_t kHalf = kHeadSize / 2;
  for (std::size_t token = 0; token < places().size(); ++token) {
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const std::size_t from = token * kColumns + at(head * kHeadSize);
      for (std::int64_t i = 0; i < kHalf; ++i) {
        const double turn =
            places()[token] *
            std::pow(kBase, -2 * static_cast<double>(i) / kHeadSize);
        const double first = x[from + at(i)], second = x[from + at(kHalf + i)];
        out[from + at(i)] = first * std::cos(turn) - second * std::sin(turn);
        out[from + at(kHalf + i)] =
            first * std::sin(turn) + second * std::cos(turn);
      }
    }
  }
  return out;
}

Tensor some(Precision dtype, unsigned seed) {
  Tensor x(static_cast<std::int64_t>(places().size()), kColumns, kColumns + 3,
           dtype);
  x.fill(seed);
  return x;
}

}  // namespace

TEST_CASE("a rotation equals its definition and writes no gaps") {
  struct Row {
    Precision dtype;
    double bound;
  };
  // Results are below sqrt(2): half a last place is 2^-8 and 2^-11.
  for (const Row& row :
       {Row{Precision::fp32, 1e-6}, Row{Precision::bf16, 0x1p-8 + 1e-6},
        Row{Precision::fp16, 0x1p-11 + 1e-6}}) {
    Tensor x = some(row.dtype, 1);
    const Doubles expected = slow_rotation(x.values());
    rotate(x, false);
    CHECK(distance(x.values(), expected) < row.bound);
    CHECK(x.gaps_untouched());
  }
}

TEST_CASE("a rotation keeps lengths, and its inverse undoes it") {
  Tensor x = some(Precision::fp32, 2);
  const Doubles before = x.values();
  rotate(x, false);
  CHECK(distance(x.values(), before) > 0.1);
  CHECK(dot(x.values(), x.values()) ==
        doctest::Approx(dot(before, before)).epsilon(1e-6));
  rotate(x, true);
  CHECK(distance(x.values(), before) < 1e-6);
}

TEST_CASE("a rotation's gradient is the inverse rotation") {
  const Doubles in = some(Precision::fp32, 3).values();
  Tensor pull = some(Precision::fp32, 4);
  const Doubles of_out = pull.values();
  rotate(pull, true);
  const Doubles expected = slopes(
      [&](const Doubles& x) { return dot(slow_rotation(x), of_out); }, in);
  CHECK(distance(pull.values(), expected) < 1e-6);
}
