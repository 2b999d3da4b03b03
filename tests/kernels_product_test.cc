#include <doctest/doctest.h>

#include "support/tensors.h"

using namespace ztplan;

namespace {

struct Cut {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
};

/// op(a) op(b) in double.
Doubles slow_product(const Cut& cut, const Doubles& a, const Doubles& b) {
  Doubles c;
  for (std::int64_t i = 0; i < cut.m; ++i) {
    for (std::int64_t j = 0; j < cut.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < cut.k; ++l) {
        sum += a[static_cast<std::size_t>(cut.transpose_a ? l * cut.m + i
                                                          : i * cut.k + l)] *
               b[static_cast<std::size_t>(cut.transpose_b ? j * cut.k + l
                                                          : l * cut.n + j)];
      }
      c.push_back(sum);
    }
  }
  return c;
}

void check_product(const Cut& cut, Precision dtype, double bound) {
  const auto make = [&](std::int64_t rows, std::int64_t columns) {
    return Tensor(rows, columns, columns + 3, dtype);
  };
  Tensor a = cut.transpose_a ? make(cut.k, cut.m) : make(cut.m, cut.k);
  Tensor b = cut.transpose_b ? make(cut.n, cut.k) : make(cut.k, cut.n);
  Tensor c = make(cut.m, cut.n);
  a.fill(1);
  b.fill(2);
  c.fill(3);
  Doubles expected = slow_product(cut, a.values(), b.values());
  if (cut.accumulate) {
    const Doubles before = c.values();
    for (std::size_t i = 0; i < before.size(); ++i) expected[i] += before[i];
  }
  run_on_cpu(kernels::Product{a.matrix(), b.matrix(), c.matrix(),
                              cut.transpose_a, cut.transpose_b,
                              cut.accumulate});
  CAPTURE(cut.m);
  CAPTURE(cut.n);
  CAPTURE(cut.k);
  CHECK(distance(c.values(), expected) < bound);
  CHECK(c.gaps_untouched());
}

}  // namespace

TEST_CASE("a product equals the slow one, cut and turned every way") {
  for (const std::int64_t m : {1, 5, 70}) {
    for (const std::int64_t n : {1, 33, 100}) {
      for (const std::int64_t k : {0, 1, 17, 600}) {
        for (int bits = 0; bits < 8; ++bits) {
          const Cut cut{m, n, k, (bits & 1) != 0, (bits & 2) != 0, bits >= 4};
          // A sum of k products of values below 1 errs by less than k last
          // places of its size; 16-bit results by half of theirs below 64.
          check_product(cut, Precision::fp32, 5e-5);
          check_product(cut, Precision::bf16, 0.125);
          check_product(cut, Precision::fp16, 0.0157);
        }
      }
    }
  }
}
