#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "calibrate/kernels/element.h"
#include "calibrate/kernels/run_on_cpu.h"

namespace ztplan::kernels {
namespace {

std::size_t length(std::int64_t size) { return static_cast<std::size_t>(size); }

void softmax(const float* logits, std::vector<float>& probabilities) {
  const auto size = static_cast<std::int64_t>(probabilities.size());
  const float largest = *std::max_element(logits, logits + size);
  float sum = 0;
  for (std::int64_t e = 0; e < size; ++e) {
    sum += probabilities[length(e)] = std::exp(logits[e] - largest);
  }
  for (float& one : probabilities) one /= sum;
}

/// The `count` largest, the larger first; of equals the lower number.
void choose(const std::vector<float>& probabilities, std::int64_t count,
            std::int32_t* chosen) {
  std::vector<std::int32_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::partial_sort(
      order, order.begin() + count, [&](std::int32_t a, std::int32_t b) {
        const float of_a = probabilities[static_cast<std::size_t>(a)];
        const float of_b = probabilities[static_cast<std::size_t>(b)];
        return of_a != of_b ? of_a > of_b : a < b;
      });
  std::copy_n(order.begin(), count, chosen);
}

/// Adds the gradient of a token's chosen probabilities.
void add_chosen(const RouteBackward& kernel, std::int64_t token,
                const float* probabilities, const float* weights_gradient,
                float* gradient) {
  const std::int64_t count = kernel.weights_gradient.columns;
  const std::int32_t* const chosen = kernel.experts.data + token * count;
  float sum = 1, dot = 0;
  if (kernel.normalize) {
    sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += probabilities[chosen[i]];
    for (std::int64_t i = 0; i < count; ++i) {
      dot += weights_gradient[i] * probabilities[chosen[i]] / sum;
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    gradient[chosen[i]] += (weights_gradient[i] - dot) / sum;
  }
}

}  // namespace

void run(const Route& kernel) {
  const std::int64_t count = kernel.weights.columns;
  std::vector<float> probabilities(length(kernel.logits.columns));
  std::vector<float> weights(length(count)), scratch;
  for (std::int64_t i = 0; i < kernel.logits.rows; ++i) {
    softmax(read_row(kernel.logits, i, scratch), probabilities);
    std::int32_t* const chosen = kernel.experts.data + i * count;
    choose(probabilities, count, chosen);
    for (std::int64_t j = 0; j < count; ++j) {
      weights[length(j)] = probabilities[length(chosen[j])];
    }
    const float sum = std::accumulate(weights.begin(), weights.end(), 0.0F);
    for (float& one : weights) one /= kernel.normalize ? sum : 1;
    write_row(probabilities.data(), kernel.probabilities, i);
    write_row(weights.data(), kernel.weights, i);
  }
}

void run(const RouteBackward& kernel) {
  const std::int64_t experts = kernel.probabilities.columns;
  std::vector<float> gradient(length(experts)), probabilities_scratch, scratch;
  for (std::int64_t i = 0; i < kernel.probabilities.rows; ++i) {
    const float* const probabilities =
        read_row(kernel.probabilities, i, probabilities_scratch);
    std::ranges::fill(gradient, 0.0F);
    if (!kernel.balance.empty()) {
      std::copy_n(floats(kernel.balance), experts, gradient.begin());
    }
    add_chosen(kernel, i, probabilities,
               read_row(kernel.weights_gradient, i, scratch), gradient.data());
    float dot = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      dot += gradient[length(e)] * probabilities[e];
    }
    for (std::int64_t e = 0; e < experts; ++e) {
      gradient[length(e)] = probabilities[e] * (gradient[length(e)] - dot);
    }
    write_row(gradient.data(), kernel.logits_gradient, i);
  }
}

void run(const BalanceSum& kernel) {
  const float* const counts = floats(kernel.counts);
  std::vector<float> scratch;
  double sum = 0;
  for (std::int64_t i = 0; i < kernel.probabilities.rows; ++i) {
    const float* const token = read_row(kernel.probabilities, i, scratch);
    for (std::int64_t e = 0; e < kernel.probabilities.columns; ++e)
      sum += double{token[e]} * counts[e];
  }
  *kernel.sum += kernel.factor * sum;
}

void run(const GatherRows& kernel) {
  const std::int64_t columns = kernel.out.columns;
  std::vector<float> row(length(columns)), scratch;
  for (std::int64_t i = 0; i < kernel.from.size; ++i) {
    const std::int64_t from = kernel.from.data[i];
    std::ranges::fill(row, 0.0F);
    if (from >= 0) {
      const float factor = kernel.factor.empty() ? 1 : floats(kernel.factor)[i];
      const float* const in = read_row(kernel.in, from, scratch);
      for (std::int64_t j = 0; j < columns; ++j)
        row[length(j)] = in[j] * factor;
    }
    write_row(row.data(), kernel.out, i);
  }
}

void run(const ScatterRows& kernel) {
  const std::int64_t columns = kernel.out.columns;
  std::vector<float> row(length(columns)), scratch;
  for (std::int64_t i = 0; i < kernel.to.size; ++i) {
    if (kernel.to.data[i] < 0) continue;
    const float factor = kernel.factor.empty() ? 1 : floats(kernel.factor)[i];
    const float* const in = read_row(kernel.in, i, scratch);
    for (std::int64_t j = 0; j < columns; ++j) row[length(j)] = in[j] * factor;
    add_to_row(row.data(), kernel.out, kernel.to.data[i]);
  }
}

void run(const DotRows& kernel) {
  std::vector<float> a_scratch, b_scratch;
  for (std::int64_t i = 0; i < kernel.from.size; ++i) {
    float sum = 0;
    if (kernel.from.data[i] >= 0) {
      const float* const a = read_row(kernel.a, kernel.from.data[i], a_scratch);
      const float* const b = read_row(kernel.b, i, b_scratch);
      for (std::int64_t j = 0; j < kernel.b.columns; ++j) sum += a[j] * b[j];
    }
    floats(kernel.out)[i] = sum;
  }
}

}  // namespace ztplan::kernels
