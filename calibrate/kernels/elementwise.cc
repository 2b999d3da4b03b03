// Sums, factors, copies, rotations and activations: one pass each.
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "calibrate/kernels/element.h"
#include "calibrate/kernels/run_on_cpu.h"

namespace ztplan::kernels {
namespace {

std::byte* at(const Array& array, std::int64_t from) {
  return array.data + from * bytes_of(array.dtype);
}

std::size_t length(std::int64_t size) { return static_cast<std::size_t>(size); }

struct Turn {
  std::vector<float> cosines, sines;  // of each pair of a head
};

Turn turn_of(std::int32_t position, const Rotate& kernel) {
  const std::int64_t half = kernel.head_size / 2;
  Turn turn;
  for (std::int64_t i = 0; i < half; ++i) {
    const double exponent =
        -2.0 * static_cast<double>(i) / static_cast<double>(kernel.head_size);
    const double angle = position * std::pow(kernel.base, exponent);
    const double sign = kernel.inverse ? -1 : 1;
    turn.cosines.push_back(static_cast<float>(std::cos(angle)));
    turn.sines.push_back(static_cast<float>(sign * std::sin(angle)));
  }
  return turn;
}

void rotate_head(const Turn& turn, float* x) {
  const std::size_t half = turn.cosines.size();
  for (std::size_t i = 0; i < half; ++i) {
    const float first = x[i], second = x[half + i];
    x[i] = first * turn.cosines[i] - second * turn.sines[i];
    x[half + i] = second * turn.cosines[i] + first * turn.sines[i];
  }
}

}  // namespace

void run(const AddRow& kernel) {
  std::vector<float> scratch;
  const float* const row = read_all(kernel.row, scratch);
  for (std::int64_t i = 0; i < kernel.rows.rows; ++i) {
    add_to_row(row, kernel.rows, i);
  }
}

void run(const SumRows& kernel) {
  const std::int64_t columns = kernel.rows.columns;
  std::vector<float> sums(length(columns)), scratch;
  for (std::int64_t i = 0; i < kernel.rows.rows; ++i) {
    const float* const row = read_row(kernel.rows, i, scratch);
    for (std::int64_t j = 0; j < columns; ++j) sums[length(j)] += row[j];
  }
  add_to_row(sums.data(), as_row(kernel.sum), 0);
}

void run(const Add& kernel) {
  for_pieces(kernel.out.size, [&](std::int64_t from, std::int64_t size) {
    float a[1024], b[1024];
    widen(at(kernel.a, from), kernel.a.dtype, size, a);
    widen(at(kernel.b, from), kernel.b.dtype, size, b);
    for (std::int64_t i = 0; i < size; ++i) a[i] += b[i];
    narrow(a, kernel.out.dtype, size, at(kernel.out, from));
  });
}

void run(const Scale& kernel) {
  require(
      kernel.in.data != kernel.out.data || kernel.in.dtype == kernel.out.dtype,
      "an array scaled in place keeps its dtype");
  for_pieces(kernel.out.size, [&](std::int64_t from, std::int64_t size) {
    float values[1024];
    widen(at(kernel.in, from), kernel.in.dtype, size, values);
    for (std::int64_t i = 0; i < size; ++i) values[i] *= kernel.factor;
    narrow(values, kernel.out.dtype, size, at(kernel.out, from));
  });
}

void run(const Fill& kernel) {
  const std::vector<float> values(1024, kernel.value);
  for_pieces(kernel.out.size, [&](std::int64_t from, std::int64_t size) {
    narrow(values.data(), kernel.out.dtype, size, at(kernel.out, from));
  });
}

void run(const Copy& kernel) {
  std::vector<float> scratch;
  for (std::int64_t i = 0; i < kernel.to.rows; ++i) {
    put_row(read_row(kernel.from, i, scratch), kernel.to, i, kernel.accumulate);
  }
}

void run(const Rotate& kernel) {
  const std::int64_t columns = kernel.x.columns;
  std::vector<float> row(length(columns)), scratch;
  for (std::int64_t i = 0; i < kernel.x.rows; ++i) {
    const Turn turn = turn_of(kernel.positions.data[i], kernel);
    const float* const in = read_row(kernel.x, i, scratch);
    std::copy(in, in + columns, row.begin());
    for (std::int64_t from = 0; from < columns; from += kernel.head_size) {
      rotate_head(turn, row.data() + from);
    }
    write_row(row.data(), kernel.x, i);
  }
}

}  // namespace ztplan::kernels
