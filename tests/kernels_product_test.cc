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

/// Of the same factors, `from` elements from where memory is aligned and in
/// rows `gap` elements apart.
Doubles placed_product(const Cut& cut, std::int64_t from, std::int64_t gap) {
  const auto place = [&](Tensor tight, Tensor& wide) {
    const Matrix to = columns_of(wide.matrix(), from, tight.matrix().columns);
    run_on_cpu(kernels::Copy{tight.matrix(), to});
    return to;
  };
  const auto tight = [](std::int64_t rows, std::int64_t columns, bool turned,
                        unsigned seed) {
    return random_tensor(turned ? columns : rows, turned ? rows : columns,
                         seed);
  };
  const auto room = [&](Tensor& of) {
    return zero_tensor(of.matrix().rows, from + of.matrix().columns + gap);
  };
  Tensor a = tight(cut.m, cut.k, cut.transpose_a, 1),
         b = tight(cut.k, cut.n, cut.transpose_b, 2),
         c = tight(cut.m, cut.n, false, 3);
  Tensor wide_a = room(a), wide_b = room(b), wide_c = room(c);
  const Matrix result = place(c, wide_c);
  run_on_cpu(kernels::Product{place(a, wide_a), place(b, wide_b), result,
                              cut.transpose_a, cut.transpose_b,
                              cut.accumulate});
  run_on_cpu(kernels::Copy{result, c.matrix()});
  return c.values();
}

}  // namespace

TEST_CASE("where factors lie changes no bit of a product") {
  for (const std::int64_t m : {1, 3, 8, 70})
    for (const std::int64_t n : {1, 4, 8, 33})
      for (const std::int64_t k : {1, 7, 8, 300})
        for (int bits = 0; bits < 8; ++bits) {
          const Cut cut{m, n, k, (bits & 1) != 0, (bits & 2) != 0, bits >= 4};
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          CAPTURE(bits);
          const Doubles expected = placed_product(cut, 0, 0);
          for (const std::int64_t from : {1, 2, 3, 5})
            CHECK(placed_product(cut, from, from % 3) == expected);
        }
}

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
