// Memory for kernels under test: rows of any dtype, farther apart than they
// are wide, filled from a seed, read back as doubles.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "calibrate/kernels/kernel.h"

namespace ztplan {

using Doubles = std::vector<double>;

/// `rows` x `columns` of `dtype`; what lies between rows is watched.
class Tensor {
 public:
  Tensor(std::int64_t rows, std::int64_t columns, std::int64_t stride,
         Precision dtype);

  Matrix matrix();
  /// Requires rows side by side.
  Array array();
  /// Row by row, without what lies between.
  Doubles values() const;
  void set(const Doubles& values);
  /// Values between -1 and 1, a function of the seed.
  void fill(unsigned seed);
  /// Whether nothing was written between the rows.
  bool gaps_untouched() const;
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::int64_t rows_, columns_, stride_;
  Precision dtype_;
  std::vector<std::byte> bytes_;
};

/// A packed fp32 tensor of random values.
Tensor random_tensor(std::int64_t rows, std::int64_t columns, unsigned seed);
/// A packed fp32 tensor of zeros.
Tensor zero_tensor(std::int64_t rows, std::int64_t columns);

/// d f / d x by central differences.
Doubles slopes(const std::function<double(const Doubles&)>& f, Doubles x);

/// The sum of products, element by element.
double dot(const Doubles& a, const Doubles& b);

/// The largest distance between two lists of one size; infinite with a NaN or
/// another size.
double distance(const Doubles& a, const Doubles& b);

}  // namespace ztplan
