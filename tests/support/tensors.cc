#include "support/tensors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/error.h"
#include "calibrate/kernels/element.h"

namespace ztplan {
namespace {

constexpr std::byte kGap{0x5A};

std::size_t length(std::int64_t size) { return static_cast<std::size_t>(size); }

}  // namespace

Tensor::Tensor(std::int64_t rows, std::int64_t columns, std::int64_t stride,
               Precision dtype)
    : rows_(rows),
      columns_(columns),
      stride_(stride),
      dtype_(dtype),
      bytes_(length(rows * stride * bytes_of(dtype)), kGap) {
  set(Doubles(length(rows * columns)));
}

Matrix Tensor::matrix() {
  return {bytes_.data(), rows_, columns_, stride_, dtype_};
}

Array Tensor::array() {
  require(stride_ == columns_ || rows_ == 1, "an array has no gaps");
  return {bytes_.data(), rows_ * columns_, dtype_};
}

Doubles Tensor::values() const {
  Doubles values;
  std::vector<float> row(length(columns_));
  for (std::int64_t i = 0; i < rows_; ++i) {
    kernels::widen(bytes_.data() + i * stride_ * bytes_of(dtype_), dtype_,
                   columns_, row.data());
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

void Tensor::set(const Doubles& values) {
  std::vector<float> row(length(columns_));
  for (std::int64_t i = 0; i < rows_; ++i) {
    std::transform(values.begin() + i * columns_,
                   values.begin() + (i + 1) * columns_, row.begin(),
                   [](double value) { return static_cast<float>(value); });
    kernels::narrow(row.data(), dtype_, columns_,
                    bytes_.data() + i * stride_ * bytes_of(dtype_));
  }
}

void Tensor::fill(unsigned seed) {
  std::mt19937 random(seed);
  Doubles values(length(rows_ * columns_));
  for (double& value : values) {
    value = static_cast<double>(random()) / 0x1p31 - 1;
  }
  set(values);
}

bool Tensor::gaps_untouched() const {
  const auto element = length(bytes_of(dtype_));
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    const bool gap = (i / element) % length(stride_) >= length(columns_);
    if (gap && bytes_[i] != kGap) return false;
  }
  return true;
}

Tensor random_tensor(std::int64_t rows, std::int64_t columns, unsigned seed) {
  Tensor tensor(rows, columns, columns, Precision::fp32);
  tensor.fill(seed);
  return tensor;
}

Tensor zero_tensor(std::int64_t rows, std::int64_t columns) {
  return {rows, columns, columns, Precision::fp32};
}

Doubles slopes(const std::function<double(const Doubles&)>& f, Doubles x) {
  constexpr double kStep = 1e-5;
  Doubles slopes;
  for (double& place : x) {
    const double middle = place;
    place = middle + kStep;
    const double above = f(x);
    place = middle - kStep;
    const double below = f(x);
    place = middle;
    slopes.push_back((above - below) / (2 * kStep));
  }
  return slopes;
}

double dot(const Doubles& a, const Doubles& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double distance(const Doubles& a, const Doubles& b) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  if (a.size() != b.size()) return kFar;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;  // infinities too
    const double gap = std::abs(a[i] - b[i]);
    if (std::isnan(gap)) return kFar;
    largest = std::max(largest, gap);
  }
  return largest;
}

}  // namespace ztplan
