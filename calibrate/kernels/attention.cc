#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "calibrate/kernels/element.h"
#include "calibrate/kernels/exponential.h"
#include "calibrate/kernels/run_on_cpu.h"

namespace ztplan::kernels {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();
/// Scores that are in memory at a time are of so many queries.
constexpr std::int64_t kQueriesAtOnce = 64;

/// A whole matrix in fp32, row by row.
class Floats {
 public:
  Floats(std::int64_t rows, std::int64_t columns)
      : values_(static_cast<std::size_t>(rows * columns)),
        rows_(rows),
        columns_(columns) {}
  float* row(std::int64_t i) { return values_.data() + i * columns_; }
  const float* row(std::int64_t i) const {
    return values_.data() + i * columns_;
  }
  Matrix matrix() {
    return {reinterpret_cast<std::byte*>(values_.data()), rows_, columns_,
            columns_, Precision::fp32};
  }

 private:
  std::vector<float> values_;
  std::int64_t rows_, columns_;
};

Floats zeros_like(const Matrix& matrix) {
  return {matrix.rows, matrix.columns};
}

Floats copy_of(const Matrix& matrix) {
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

float dot(const float* a, const float* b, std::int64_t size) {
  float sum = 0;
  for (std::int64_t j = 0; j < size; ++j) sum += a[j] * b[j];
  return sum;
}

bool sees(const AttentionShape& shape, std::int64_t query, std::int64_t key) {
  if (!shape.causal) return true;
  const std::int64_t distance =
      std::int64_t{shape.query_positions.data[query]} -
      shape.key_positions.data[key];
  return distance >= 0 && (shape.window == 0 || distance < shape.window);
}

/// Queries [from, from + queries) of one head of one sequence, and the run of
/// keys outside of which none of them sees any.
struct Tile {
  std::int64_t sequence = 0, head = 0, kv_head = 0;
  std::int64_t from = 0, queries = 0, first = 0, keys = 0;

  Matrix of_queries(const AttentionShape& shape, const Matrix& all,
                    std::int64_t size) const {
    return columns_of(rows_of(all, sequence * shape.queries + from, queries),
                      head * size, size);
  }
  Matrix of_keys(const AttentionShape& shape, const Matrix& all,
                 std::int64_t size) const {
    return columns_of(rows_of(all, sequence * shape.keys + first, keys),
                      kv_head * size, size);
  }
  /// Where what is known of its i-th query lies.
  std::int64_t statistic(const AttentionShape& shape, std::int64_t i) const {
    return (sequence * shape.heads + head) * shape.queries + from + i;
  }
};

void find_keys(const AttentionShape& shape, Tile& tile) {
  const auto seen = [&](std::int64_t key) {
    for (std::int64_t i = 0; i < tile.queries; ++i)
      if (sees(shape, tile.from + i, key)) return true;
    return false;
  };
  std::int64_t last = shape.keys;
  while (tile.first < last && !seen(tile.first)) ++tile.first;
  while (last > tile.first && !seen(last - 1)) --last;
  tile.keys = last - tile.first;
}

template <class F>
void for_tiles(const AttentionShape& shape, const F& f) {
  for (std::int64_t from = 0; from < shape.queries; from += kQueriesAtOnce) {
    Tile tile;
    tile.from = from;
    tile.queries = std::min(kQueriesAtOnce, shape.queries - from);
    find_keys(shape, tile);
    for (tile.sequence = 0; tile.sequence < shape.sequences; ++tile.sequence)
      for (tile.head = 0; tile.head < shape.heads; ++tile.head) {
        tile.kv_head = tile.head * shape.kv_heads / shape.heads;
        f(tile);
      }
  }
}

/// Scores of a tile; -infinity where a query does not see the key.
Floats scores_of(const AttentionShape& shape, const Tile& tile, const Matrix& q,
                 const Matrix& k) {
  Floats scores(tile.queries, tile.keys);
  run(Product{.a = tile.of_queries(shape, q, shape.qk_size),
              .b = tile.of_keys(shape, k, shape.qk_size),
              .c = scores.matrix(),
              .transpose_b = true});
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    float* const row = scores.row(i);
    for (std::int64_t j = 0; j < tile.keys; ++j)
      row[j] = sees(shape, tile.from + i, tile.first + j) ? shape.scale * row[j]
                                                          : kNothing;
  }
  return scores;
}

/// Scores to probabilities; returns the logarithm of the sum.
float normalize(float* scores, std::int64_t size) {
  float largest = kNothing;
  for (std::int64_t j = 0; j < size; ++j)
    largest = scores[j] > largest ? scores[j] : largest;
  if (largest == kNothing) {
    std::fill_n(scores, size, 0.0F);
    return kNothing;
  }
  for (std::int64_t j = 0; j < size; ++j)
    scores[j] = exponential(scores[j] - largest);
  const float sum = sum_of(size, [&](std::int64_t j) { return scores[j]; });
  for (std::int64_t j = 0; j < size; ++j) scores[j] /= sum;
  return largest + std::log(sum);
}

/// The kept probabilities of a tile's i-th query, of all keys.
Matrix kept_row(const Array& probabilities, const AttentionShape& shape,
                const Tile& tile, std::int64_t i) {
  return rows_of(as_matrix(probabilities, shape.keys), tile.statistic(shape, i),
                 1);
}

/// Keeps them, and goes on with what was kept.
void keep_row(float* probabilities, const Matrix& row, const Tile& tile) {
  std::vector<float> whole(static_cast<std::size_t>(row.columns));
  std::copy_n(probabilities, tile.keys, whole.data() + tile.first);
  write_row(whole.data(), row, 0);
  const Matrix seen = columns_of(row, tile.first, tile.keys);
  widen(seen.data, seen.dtype, tile.keys, probabilities);
}

/// Probabilities of a tile: those that were kept, or computed again.
Floats probabilities_of(const AttentionBackward& kernel, const Tile& tile,
                        const Matrix& q, const Matrix& k) {
  const AttentionShape& shape = kernel.shape;
  if (!kernel.probabilities.empty()) {
    Floats kept(tile.queries, tile.keys);
    for (std::int64_t i = 0; i < tile.queries; ++i) {
      const Matrix row =
          columns_of(kept_row(kernel.probabilities, shape, tile, i), tile.first,
                     tile.keys);
      widen(row.data, row.dtype, tile.keys, kept.row(i));
    }
    return kept;
  }
  Floats scores = scores_of(shape, tile, q, k);
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const float log_sum = floats(kernel.log_sum)[tile.statistic(shape, i)];
    float* const row = scores.row(i);
    // A query that sees no key has no finite sum.
    for (std::int64_t j = 0; j < tile.keys; ++j)
      row[j] = row[j] == kNothing ? 0 : exponential(row[j] - log_sum);
  }
  return scores;
}

/// Gradients of a tile's scores, from those of its probabilities, in place.
void to_score_gradients(const AttentionBackward& kernel, const Tile& tile,
                        const Floats& probabilities, Floats& gradients) {
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const float delta = floats(kernel.delta)[tile.statistic(kernel.shape, i)];
    const float* const probability = probabilities.row(i);
    float* const row = gradients.row(i);
    for (std::int64_t j = 0; j < tile.keys; ++j)
      row[j] = kernel.shape.scale * probability[j] * (row[j] - delta);
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
  std::vector<float> q_values, k_values, v_values;
  const Matrix q = widened(kernel.q, q_values), k = widened(kernel.k, k_values),
               v = widened(kernel.v, v_values);
  for_tiles(shape, [&](const Tile& tile) {
    Floats scores = scores_of(shape, tile, q, k);
    for (std::int64_t i = 0; i < tile.queries; ++i) {
      floats(kernel.log_sum)[tile.statistic(shape, i)] =
          normalize(scores.row(i), tile.keys);
      if (!kernel.probabilities.empty())
        keep_row(scores.row(i), kept_row(kernel.probabilities, shape, tile, i),
                 tile);
    }
    run(Product{.a = scores.matrix(),
                .b = tile.of_keys(shape, v, shape.v_size),
                .c = tile.of_queries(shape, kernel.out, shape.v_size)});
  });
}

void run(const MergeAttention& kernel) {
  const std::int64_t queries = kernel.out.rows / kernel.sequences;
  const std::int64_t size = kernel.out.columns / kernel.heads;
  Floats out = copy_of(kernel.out);
  const Floats part = copy_of(kernel.part);
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
  const std::int64_t qk = shape.qk_size, size = shape.v_size;
  std::vector<float> q_values, k_values, v_values, out_values;
  const Matrix q = widened(kernel.q, q_values), k = widened(kernel.k, k_values),
               v = widened(kernel.v, v_values),
               out_gradient = widened(kernel.out_gradient, out_values);
  Floats k_sums = zeros_like(kernel.k_gradient),
         v_sums = zeros_like(kernel.v_gradient);
  for_tiles(shape, [&](const Tile& tile) {
    Floats probabilities = probabilities_of(kernel, tile, q, k);
    const Matrix out = tile.of_queries(shape, out_gradient, size);
    run(Product{.a = probabilities.matrix(),
                .b = out,
                .c = tile.of_keys(shape, v_sums.matrix(), size),
                .transpose_a = true,
                .accumulate = true});
    Floats gradients(tile.queries, tile.keys);
    run(Product{.a = out,
                .b = tile.of_keys(shape, v, size),
                .c = gradients.matrix(),
                .transpose_b = true});
    to_score_gradients(kernel, tile, probabilities, gradients);
    run(Product{.a = gradients.matrix(),
                .b = tile.of_queries(shape, q, qk),
                .c = tile.of_keys(shape, k_sums.matrix(), qk),
                .transpose_a = true,
                .accumulate = true});
    run(Product{.a = gradients.matrix(),
                .b = tile.of_keys(shape, k, qk),
                .c = tile.of_queries(shape, kernel.q_gradient, qk),
                .accumulate = kernel.accumulate});
  });
  put(k_sums, kernel.k_gradient, kernel.accumulate);
  put(v_sums, kernel.v_gradient, kernel.accumulate);
}

}  // namespace ztplan::kernels
