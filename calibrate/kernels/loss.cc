#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "calibrate/kernels/element.h"
#include "calibrate/kernels/exponential.h"
#include "calibrate/kernels/run_on_cpu.h"

namespace ztplan::kernels {
namespace {

/// How many of the columns are words, not padding.
std::int64_t words_of(const Matrix& logits, std::int64_t first,
                      std::int64_t vocab) {
  return std::clamp<std::int64_t>(vocab - first, 0, logits.columns);
}

/// The column of a token's target, -1 where it is not among them.
std::int64_t column_of(std::int32_t target, std::int64_t first,
                       std::int64_t words) {
  const std::int64_t column = target - first;
  return target < 0 || column < 0 || column >= words ? -1 : column;
}

}  // namespace

void run(const LossMaximum& kernel) {
  const std::int64_t words =
      words_of(kernel.logits, kernel.first, kernel.vocab);
  std::vector<float> scratch;
  for (std::int64_t i = 0; i < kernel.logits.rows; ++i) {
    const float* const row = read_row(kernel.logits, i, scratch);
    float largest = -std::numeric_limits<float>::infinity();
    for (std::int64_t j = 0; j < words; ++j)
      largest = std::max(largest, row[j]);
    floats(kernel.maximum)[i] = largest;
  }
}

void run(const LossSum& kernel) {
  const std::int64_t words =
      words_of(kernel.logits, kernel.first, kernel.vocab);
  std::vector<float> scratch;
  for (std::int64_t i = 0; i < kernel.logits.rows; ++i) {
    const float* const row = read_row(kernel.logits, i, scratch);
    const float largest = floats(kernel.maximum)[i];
    floats(kernel.sum)[i] = sum_of(
        words, [&](std::int64_t j) { return exponential(row[j] - largest); });
    const std::int64_t target =
        column_of(kernel.targets.data[i], kernel.first, words);
    floats(kernel.target_logit)[i] = target < 0 ? 0 : row[target];
  }
}

void run(const LossTotal& kernel) {
  for (std::int64_t i = 0; i < kernel.targets.size; ++i) {
    if (kernel.targets.data[i] < 0) continue;
    *kernel.total += std::log(double{floats(kernel.sum)[i]}) +
                     double{floats(kernel.maximum)[i]} -
                     double{floats(kernel.target_logit)[i]};
  }
}

void run(const LossGradient& kernel) {
  const std::int64_t words =
      words_of(kernel.logits, kernel.first, kernel.vocab);
  std::vector<float> scratch;
  std::vector<float> gradient(static_cast<std::size_t>(kernel.logits.columns));
  for (std::int64_t i = 0; i < kernel.logits.rows; ++i) {
    std::ranges::fill(gradient, 0.0F);
    const std::int32_t target = kernel.targets.data[i];
    if (target >= 0) {
      const float* const row = read_row(kernel.logits, i, scratch);
      const float largest = floats(kernel.maximum)[i];
      const float factor = kernel.scale / floats(kernel.sum)[i];
      for (std::int64_t j = 0; j < words; ++j) {
        gradient.data()[j] = exponential(row[j] - largest) * factor;
      }
      const std::int64_t column = column_of(target, kernel.first, words);
      if (column >= 0) gradient.data()[column] -= kernel.scale;
    }
    write_row(gradient.data(), kernel.gradient, i);
  }
}

}  // namespace ztplan::kernels
