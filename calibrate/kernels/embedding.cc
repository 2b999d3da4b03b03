#include <vector>

#include "calibrate/kernels/element.h"
#include "calibrate/kernels/run_on_cpu.h"

namespace ztplan::kernels {
namespace {

/// The row of a table that starts at `first`, -1 where it has none for `id`.
std::int64_t row_of(std::int32_t id, std::int64_t first, std::int64_t rows) {
  const std::int64_t row = id - first;
  return id < 0 || row < 0 || row >= rows ? -1 : row;
}

}  // namespace

void run(const Embed& kernel) {
  const std::vector<float> zeros(static_cast<std::size_t>(kernel.out.columns));
  std::vector<float> scratch;
  for (std::int64_t i = 0; i < kernel.out.rows; ++i) {
    const std::int64_t row =
        row_of(kernel.ids.data[i], kernel.first, kernel.table.rows);
    if (row < 0 && kernel.accumulate) continue;
    const float* const values =
        row < 0 ? zeros.data() : read_row(kernel.table, row, scratch);
    put_row(values, kernel.out, i, kernel.accumulate);
  }
}

void run(const EmbedBackward& kernel) {
  std::vector<float> scratch;
  for (std::int64_t i = 0; i < kernel.out_gradient.rows; ++i) {
    const std::int64_t row =
        row_of(kernel.ids.data[i], kernel.first, kernel.table_gradient.rows);
    if (row < 0) continue;
    add_to_row(read_row(kernel.out_gradient, i, scratch), kernel.table_gradient,
               row);
  }
}

}  // namespace ztplan::kernels
