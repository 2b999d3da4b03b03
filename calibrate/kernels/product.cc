// The one door to Eigen's products. Their blocks, and so the order of a sum,
// follow from the shape alone: without the threshold below Eigen would add up
// small products in an order that depends on where the result begins.
#define EIGEN_GEMM_TO_COEFFBASED_THRESHOLD 0
#define EIGEN_DONT_PARALLELIZE  // a rank is one thread

#include <Eigen/Core>
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "calibrate/kernels/element.h"
#include "calibrate/kernels/run_on_cpu.h"

namespace ztplan::kernels {
namespace {

using Rows =
    Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Stride = Eigen::OuterStride<>;
using Factor = Eigen::Map<const Rows, Eigen::Unaligned, Stride>;
using Result = Eigen::Map<Rows, Eigen::Unaligned, Stride>;

/// Rows of 16-bit results that are in fp32 at a time.
constexpr std::int64_t kRowsAtOnce = 256;

Factor view(const Matrix& m) {
  return {reinterpret_cast<const float*>(m.data), m.rows, m.columns,
          Stride(m.stride)};
}

template <class A, class B>
void multiply(const A& a, const B& b, const Matrix& c, bool accumulate) {
  Result sums(reinterpret_cast<float*>(c.data), c.rows, c.columns,
              Stride(c.stride));
  if (accumulate)
    sums.noalias() += a * b;
  else
    sums.noalias() = a * b;
}

/// All in fp32.
void multiply(const Product& p) {
  const Factor a = view(p.a), b = view(p.b);
  if (p.transpose_a && p.transpose_b)
    return multiply(a.transpose(), b.transpose(), p.c, p.accumulate);
  if (p.transpose_a) return multiply(a.transpose(), b, p.c, p.accumulate);
  if (p.transpose_b) return multiply(a, b.transpose(), p.c, p.accumulate);
  multiply(a, b, p.c, p.accumulate);
}

Matrix fp32_rows(std::int64_t rows, std::int64_t columns,
                 std::vector<float>& values) {
  values.resize(static_cast<std::size_t>(rows * columns));
  return {reinterpret_cast<std::byte*>(values.data()), rows, columns, columns,
          Precision::fp32};
}

/// Some rows of the result at a time.
void multiply_in_blocks(const Product& p) {
  std::vector<float> a_values, b_values, c_values;
  const Matrix b = widened(p.b, b_values);
  for (std::int64_t from = 0; from < p.c.rows; from += kRowsAtOnce) {
    const std::int64_t some = std::min(kRowsAtOnce, p.c.rows - from);
    const Matrix a =
        p.transpose_a ? columns_of(p.a, from, some) : rows_of(p.a, from, some);
    const Matrix sums = fp32_rows(some, p.c.columns, c_values);
    multiply({.a = widened(a, a_values),
              .b = b,
              .c = sums,
              .transpose_a = p.transpose_a,
              .transpose_b = p.transpose_b});
    for (std::int64_t i = 0; i < some; ++i)
      put_row(c_values.data() + i * p.c.columns, p.c, from + i, p.accumulate);
  }
}

}  // namespace

void run(const Product& kernel) {
  const std::int64_t m = kernel.c.rows, n = kernel.c.columns;
  const std::int64_t k = kernel.transpose_a ? kernel.a.rows : kernel.a.columns;
  require((kernel.transpose_a ? kernel.a.columns : kernel.a.rows) == m &&
              (kernel.transpose_b ? kernel.b.rows : kernel.b.columns) == n &&
              (kernel.transpose_b ? kernel.b.columns : kernel.b.rows) == k,
          "the factors of a product fit");
  constexpr Precision kFp32 = Precision::fp32;
  if (kernel.a.dtype == kFp32 && kernel.b.dtype == kFp32 &&
      kernel.c.dtype == kFp32)
    return multiply(kernel);
  multiply_in_blocks(kernel);
}

}  // namespace ztplan::kernels
