#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "calibrate/kernels/element.h"
#include "calibrate/kernels/run_on_cpu.h"

namespace ztplan::kernels {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// A whole matrix in fp32, row by row.
struct Floats {
  std::vector<float> values;
  std::int64_t columns = 0;
  float* row(std::int64_t i) { return values.data() + i * columns; }
  const float* row(std::int64_t i) const { return values.data() + i * columns; }
};

Floats zeros_like(const Matrix& matrix) {
  return {std::vector<float>(
              static_cast<std::size_t>(matrix.rows * matrix.columns)),
          matrix.columns};
}

Floats widened(const Matrix& matrix) {
  Floats all = zeros_like(matrix);
  std::vector<float> scratch;
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    const float* const row = read_row(matrix, i, scratch);
    std::copy(row, row + matrix.columns, all.row(i));
  }
  return all;
}

void put(const Floats& all, const Matrix& matrix, bool accumulate) {
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    put_row(all.row(i), matrix, i, accumulate);
  }
}

bool sees(const AttentionShape& shape, std::int64_t query, std::int64_t key) {
  if (!shape.causal) return true;
  const std::int64_t distance =
      std::int64_t{shape.query_positions.data[query]} -
      shape.key_positions.data[key];
  return distance >= 0 && (shape.window == 0 || distance < shape.window);
}

float dot(const float* a, const float* b, std::int64_t size) {
  float sum = 0;
  for (std::int64_t j = 0; j < size; ++j) sum += a[j] * b[j];
  return sum;
}

void add_scaled(float factor, const float* from, std::int64_t size, float* to) {
  for (std::int64_t j = 0; j < size; ++j) to[j] += factor * from[j];
}

/// One query of one head of one sequence, and where its parts are.
struct Place {
  std::int64_t sequence, head, query, kv_head;
  std::int64_t query_row(const AttentionShape& shape) const {
    return sequence * shape.queries + query;
  }
  std::int64_t key_row(const AttentionShape& shape, std::int64_t key) const {
    return sequence * shape.keys + key;
  }
  std::int64_t statistic(const AttentionShape& shape) const {
    return (sequence * shape.heads + head) * shape.queries + query;
  }
};

template <class F>
void for_places(const AttentionShape& shape, const F& f) {
  for (std::int64_t s = 0; s < shape.sequences; ++s) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      for (std::int64_t q = 0; q < shape.queries; ++q) {
        f(Place{s, h, q, h * shape.kv_heads / shape.heads});
      }
    }
  }
}

/// Scores of one query; -infinity where it does not see the key.
void score(const AttentionShape& shape, const Place& place, const Floats& q,
           const Floats& k, std::vector<float>& scores) {
  const float* const query =
      q.row(place.query_row(shape)) + place.head * shape.qk_size;
  for (std::int64_t j = 0; j < shape.keys; ++j) {
    const float* const key =
        k.row(place.key_row(shape, j)) + place.kv_head * shape.qk_size;
    scores[static_cast<std::size_t>(j)] =
        sees(shape, place.query, j)
            ? shape.scale * dot(query, key, shape.qk_size)
            : kNothing;
  }
}

/// Scores to probabilities; returns the logarithm of the sum.
float normalize(std::vector<float>& scores) {
  const float largest = std::ranges::max(scores);
  if (largest == kNothing) {
    std::ranges::fill(scores, 0.0F);
    return kNothing;
  }
  float sum = 0;
  for (float& one : scores) sum += one = std::exp(one - largest);
  for (float& one : scores) one /= sum;
  return largest + std::log(sum);
}

Matrix row_of_probabilities(const Array& probabilities,
                            const AttentionShape& shape, const Place& place) {
  return rows_of(as_matrix(probabilities, shape.keys), place.statistic(shape),
                 1);
}

/// Probabilities of one query: those that were kept, or computed again.
void probabilities_of(const AttentionBackward& kernel, const Place& place,
                      const Floats& q, const Floats& k,
                      std::vector<float>& probabilities) {
  const AttentionShape& shape = kernel.shape;
  if (!kernel.probabilities.empty()) {
    const Matrix row = row_of_probabilities(kernel.probabilities, shape, place);
    return widen(row.data, row.dtype, shape.keys, probabilities.data());
  }
  score(shape, place, q, k, probabilities);
  const float log_sum = floats(kernel.log_sum)[place.statistic(shape)];
  for (float& one : probabilities) {
    one = one == kNothing ? 0 : std::exp(one - log_sum);
  }
}

void merge_head(float* out, const float* part, std::int64_t size,
                float& log_sum, float part_log_sum) {
  const float largest = std::max(log_sum, part_log_sum);
  if (largest == kNothing) return;
  const float both = largest + std::log(std::exp(log_sum - largest) +
                                        std::exp(part_log_sum - largest));
  const float keep = std::exp(log_sum - both);
  const float take = std::exp(part_log_sum - both);
  for (std::int64_t j = 0; j < size; ++j) {
    out[j] = keep * out[j] + take * part[j];
  }
  log_sum = both;
}

}  // namespace

void run(const AttentionForward& kernel) {
  const AttentionShape& shape = kernel.shape;
  const Floats q = widened(kernel.q), k = widened(kernel.k),
               v = widened(kernel.v);
  Floats out = zeros_like(kernel.out);
  if (shape.keys == 0) {
    std::fill_n(floats(kernel.log_sum), kernel.log_sum.size, kNothing);
    return put(out, kernel.out, false);
  }
  std::vector<float> scores(static_cast<std::size_t>(shape.keys));
  for_places(shape, [&](const Place& place) {
    score(shape, place, q, k, scores);
    floats(kernel.log_sum)[place.statistic(shape)] = normalize(scores);
    if (!kernel.probabilities.empty()) {
      const Matrix row =
          row_of_probabilities(kernel.probabilities, shape, place);
      write_row(scores.data(), row, 0);
      widen(row.data, row.dtype, shape.keys, scores.data());
    }
    float* const to =
        out.row(place.query_row(shape)) + place.head * shape.v_size;
    for (std::int64_t j = 0; j < shape.keys; ++j) {
      add_scaled(scores[static_cast<std::size_t>(j)],
                 v.row(place.key_row(shape, j)) + place.kv_head * shape.v_size,
                 shape.v_size, to);
    }
  });
  put(out, kernel.out, false);
}

void run(const MergeAttention& kernel) {
  const std::int64_t queries = kernel.out.rows / kernel.sequences;
  const std::int64_t size = kernel.out.columns / kernel.heads;
  Floats out = widened(kernel.out);
  const Floats part = widened(kernel.part);
  for (std::int64_t row = 0; row < kernel.out.rows; ++row) {
    const std::int64_t sequence = row / queries, query = row % queries;
    for (std::int64_t head = 0; head < kernel.heads; ++head) {
      const std::int64_t at =
          (sequence * kernel.heads + head) * queries + query;
      merge_head(out.row(row) + head * size, part.row(row) + head * size, size,
                 floats(kernel.log_sum)[at], floats(kernel.part_log_sum)[at]);
    }
  }
  put(out, kernel.out, false);
}

void run(const AttentionDelta& kernel) {
  const std::int64_t queries = kernel.out.rows / kernel.sequences;
  const std::int64_t size = kernel.out.columns / kernel.heads;
  std::vector<float> out_scratch, gradient_scratch;
  for (std::int64_t row = 0; row < kernel.out.rows; ++row) {
    const float* const out = read_row(kernel.out, row, out_scratch);
    const float* const gradient =
        read_row(kernel.out_gradient, row, gradient_scratch);
    const std::int64_t sequence = row / queries, query = row % queries;
    for (std::int64_t head = 0; head < kernel.heads; ++head) {
      floats(kernel.delta)[(sequence * kernel.heads + head) * queries + query] =
          dot(out + head * size, gradient + head * size, size);
    }
  }
}

void run(const AttentionBackward& kernel) {
  const AttentionShape& shape = kernel.shape;
  const Floats q = widened(kernel.q), k = widened(kernel.k),
               v = widened(kernel.v),
               out_gradient = widened(kernel.out_gradient);
  Floats q_gradient = zeros_like(kernel.q_gradient),
         k_gradient = zeros_like(kernel.k_gradient),
         v_gradient = zeros_like(kernel.v_gradient);
  std::vector<float> probabilities(static_cast<std::size_t>(shape.keys));
  for_places(shape, [&](const Place& place) {
    probabilities_of(kernel, place, q, k, probabilities);
    const float delta = floats(kernel.delta)[place.statistic(shape)];
    const std::int64_t row = place.query_row(shape);
    const std::int64_t q_from = place.head * shape.qk_size;
    const std::int64_t k_from = place.kv_head * shape.qk_size;
    const std::int64_t v_from = place.kv_head * shape.v_size;
    const float* const out = out_gradient.row(row) + place.head * shape.v_size;
    for (std::int64_t j = 0; j < shape.keys; ++j) {
      const float probability = probabilities[static_cast<std::size_t>(j)];
      const std::int64_t key = place.key_row(shape, j);
      const float slope = dot(out, v.row(key) + v_from, shape.v_size) - delta;
      const float score_gradient = shape.scale * probability * slope;
      add_scaled(probability, out, shape.v_size, v_gradient.row(key) + v_from);
      add_scaled(score_gradient, k.row(key) + k_from, shape.qk_size,
                 q_gradient.row(row) + q_from);
      add_scaled(score_gradient, q.row(row) + q_from, shape.qk_size,
                 k_gradient.row(key) + k_from);
    }
  });
  put(q_gradient, kernel.q_gradient, kernel.accumulate);
  put(k_gradient, kernel.k_gradient, kernel.accumulate);
  put(v_gradient, kernel.v_gradient, kernel.accumulate);
}

}  // namespace ztplan::kernels
