#include <algorithm>
#include <vector>

#include "base/error.h"
#include "calibrate/kernels/element.h"
#include "calibrate/kernels/run_on_cpu.h"

namespace ztplan::kernels {
namespace {

/// `matrix`, or its transpose, widened, row by row.
std::vector<float> widened(const Matrix& matrix, bool transpose) {
  std::vector<float> values(
      static_cast<std::size_t>(matrix.rows * matrix.columns));
  std::vector<float> scratch;
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    const float* const row = read_row(matrix, i, scratch);
    for (std::int64_t j = 0; j < matrix.columns; ++j) {
      const std::int64_t place =
          transpose ? j * matrix.rows + i : i * matrix.columns + j;
      values[static_cast<std::size_t>(place)] = row[j];
    }
  }
  return values;
}

}  // namespace

void run(const Product& kernel) {
  const std::int64_t m = kernel.c.rows, n = kernel.c.columns;
  const std::int64_t k = kernel.transpose_a ? kernel.a.rows : kernel.a.columns;
  require((kernel.transpose_a ? kernel.a.columns : kernel.a.rows) == m &&
              (kernel.transpose_b ? kernel.b.rows : kernel.b.columns) == n &&
              (kernel.transpose_b ? kernel.b.columns : kernel.b.rows) == k,
          "the factors of a product fit");
  const std::vector<float> a = widened(kernel.a, kernel.transpose_a);
  const std::vector<float> b = widened(kernel.b, kernel.transpose_b);
  std::vector<float> row(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < m; ++i) {
    std::ranges::fill(row, 0.0F);
    for (std::int64_t l = 0; l < k; ++l) {
      const float factor = a[static_cast<std::size_t>(i * k + l)];
      const float* const b_row = b.data() + l * n;
      for (std::int64_t j = 0; j < n; ++j) row.data()[j] += factor * b_row[j];
    }
    put_row(row.data(), kernel.c, i, kernel.accumulate);
  }
}

}  // namespace ztplan::kernels
