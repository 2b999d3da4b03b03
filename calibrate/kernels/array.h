// Views of device memory that kernels read and write. The memory belongs to a
// device's arena; a view never frees it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "strategy/strategy.h"

namespace ztplan {

/// `size` elements side by side.
struct Array {
  std::byte* data = nullptr;
  std::int64_t size = 0;
  Precision dtype = Precision::fp32;
  bool empty() const { return size == 0; }
};

/// `size` bytes from `data` on: fp8 takes one byte an element.
inline Array bytes_at(void* data, std::int64_t size) {
  return {static_cast<std::byte*>(data), size, Precision::fp8};
}

/// `rows` x `columns`, row by row, `stride` elements apart.
struct Matrix {
  std::byte* data = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;
  Precision dtype = Precision::fp32;
};

/// Token ids, positions, places: 32 bits each.
struct Indices {
  std::int32_t* data = nullptr;
  std::int64_t size = 0;
};

/// `size` elements of `array` from element `from` on.
inline Array slice(const Array& array, std::int64_t from, std::int64_t size) {
  return {array.data + from * bytes_of(array.dtype), size, array.dtype};
}

/// `array` as rows of `columns`. Requires that they divide its size.
inline Matrix as_matrix(const Array& array, std::int64_t columns) {
  return {array.data, columns == 0 ? 0 : array.size / columns, columns, columns,
          array.dtype};
}

/// The elements of a matrix whose rows have no gaps between them.
inline Array as_array(const Matrix& matrix) {
  return {matrix.data, matrix.rows * matrix.columns, matrix.dtype};
}

inline Bytes bytes_in(const Array& array) {
  return {array.size * bytes_of(array.dtype)};
}

/// `columns` columns of `matrix` from column `from` on.
inline Matrix columns_of(const Matrix& matrix, std::int64_t from,
                         std::int64_t columns) {
  return {matrix.data + from * bytes_of(matrix.dtype), matrix.rows, columns,
          matrix.stride, matrix.dtype};
}

/// `rows` rows of `matrix` from row `from` on.
inline Matrix rows_of(const Matrix& matrix, std::int64_t from,
                      std::int64_t rows) {
  return {matrix.data + from * matrix.stride * bytes_of(matrix.dtype), rows,
          matrix.columns, matrix.stride, matrix.dtype};
}

}  // namespace ztplan
