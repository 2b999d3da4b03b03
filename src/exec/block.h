// A part of a matrix: what a rank holds of a tensor, or asks for.
#pragma once

#include <cstdint>

namespace ztplan {

/// Rows `row` .. `row` + `rows`, and columns alike. A vector is one row.
struct Block {
  std::int64_t row = 0, rows = 0;
  std::int64_t column = 0, columns = 0;

  std::int64_t size() const { return rows * columns; }
  bool operator==(const Block&) const = default;
};

}  // namespace ztplan
