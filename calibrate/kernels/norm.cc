#include <cmath>
#include <vector>

#include "base/error.h"
#include "calibrate/kernels/element.h"
#include "calibrate/kernels/run_on_cpu.h"

namespace ztplan::kernels {
namespace {

float mean_of(const float* values, std::int64_t size) {
  return sum_of(size, [&](std::int64_t j) { return values[j]; }) /
         static_cast<float>(size);
}

/// Mean of the squares of the distances from `center`.
float spread_of(const float* values, std::int64_t size, float center) {
  return sum_of(size,
                [&](std::int64_t j) {
                  return (values[j] - center) * (values[j] - center);
                }) /
         static_cast<float>(size);
}

/// The gradient of one row, and what it adds to those of weight and bias.
struct RowGradient {
  const float* in;
  const float* out;
  const float* weight;  // or null
  float mean, rstd;
  std::int64_t size;
  bool centered;

  float normal(std::int64_t j) const { return (in[j] - mean) * rstd; }
  float weighted(std::int64_t j) const {
    return weight == nullptr ? out[j] : out[j] * weight[j];
  }
};

void gradient_of_input(const RowGradient& row, float* gradient) {
  const float sum =
      sum_of(row.size, [&](std::int64_t j) { return row.weighted(j); });
  const float dot = sum_of(row.size, [&](std::int64_t j) {
    return row.weighted(j) * row.normal(j);
  });
  const auto count = static_cast<float>(row.size);
  const float mean = row.centered ? sum / count : 0;
  for (std::int64_t j = 0; j < row.size; ++j) {
    gradient[j] =
        row.rstd * (row.weighted(j) - mean - row.normal(j) * (dot / count));
  }
}

}  // namespace

void run(const NormForward& kernel) {
  const std::int64_t columns = kernel.in.columns;
  std::vector<float> in_scratch, weight_scratch, bias_scratch;
  std::vector<float> out(static_cast<std::size_t>(columns));
  const bool centered = !kernel.mean.empty();
  const bool weighs = !kernel.weight.empty(), shifts = !kernel.bias.empty();
  const float* const weight = read_all(kernel.weight, weight_scratch);
  const float* const bias = read_all(kernel.bias, bias_scratch);
  for (std::int64_t i = 0; i < kernel.in.rows; ++i) {
    const float* const in = read_row(kernel.in, i, in_scratch);
    const float mean = centered ? mean_of(in, columns) : 0;
    const float rstd =
        1 / std::sqrt(spread_of(in, columns, mean) + kernel.epsilon);
    for (std::int64_t j = 0; j < columns; ++j) {
      const float normal = (in[j] - mean) * rstd;
      out.data()[j] =
          normal * (weighs ? weight[j] : 1) + (shifts ? bias[j] : 0);
    }
    write_row(out.data(), kernel.out, i);
    if (centered) floats(kernel.mean)[i] = mean;
    floats(kernel.rstd)[i] = rstd;
  }
}

void run(const NormBackward& kernel) {
  const std::int64_t columns = kernel.in.columns;
  const auto size = static_cast<std::size_t>(columns);
  std::vector<float> in_scratch, out_scratch, weight_scratch;
  std::vector<float> gradient(size), weight_sum(size), bias_sum(size);
  RowGradient row{};
  row.size = columns;
  row.centered = !kernel.mean.empty();
  if (!kernel.weight.empty()) {
    row.weight = read_all(kernel.weight, weight_scratch);
  }
  for (std::int64_t i = 0; i < kernel.in.rows; ++i) {
    row.in = read_row(kernel.in, i, in_scratch);
    row.out = read_row(kernel.out_gradient, i, out_scratch);
    row.mean = row.centered ? floats(kernel.mean)[i] : 0;
    row.rstd = floats(kernel.rstd)[i];
    for (std::int64_t j = 0; j < columns; ++j) {
      weight_sum.data()[j] += row.out[j] * row.normal(j);
      bias_sum.data()[j] += row.out[j];
    }
    gradient_of_input(row, gradient.data());
    put_row(gradient.data(), kernel.in_gradient, i, kernel.accumulate);
  }
  if (!kernel.weight_gradient.empty()) {
    add_to_row(weight_sum.data(), as_row(kernel.weight_gradient), 0);
  }
  if (!kernel.bias_gradient.empty()) {
    add_to_row(bias_sum.data(), as_row(kernel.bias_gradient), 0);
  }
}

}  // namespace ztplan::kernels
