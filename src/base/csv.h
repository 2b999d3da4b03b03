// Strict reading of CSV (RFC 4180): a header row, then rows addressed by
// column name. What the columns mean is the caller's; writing is table.h's.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ztplan {

/// A row and where it stands. Cheap to copy; keeps its table alive.
class CsvRow {
 public:
  /// The cell of `column`. Throws `Error` with the nearest column when the
  /// table has no such one.
  const std::string& at(std::string_view column) const;
  /// The cell of `column`, or empty text when the table has no such one.
  std::string_view get(std::string_view column) const;
  std::size_t line() const;  // of the file, where the row begins; from 1
  /// "3 cells where the header has 5"; empty when it has as many. What lacks
  /// reads as empty; which cell is which cannot be known.
  std::string fault() const;

  /// Throws `Error`: "<origin>: line <n>: <message>".
  [[noreturn]] void fail(const std::string& message,
                         std::string hint = "") const;

 private:
  friend class CsvTable;
  struct Content;
  std::shared_ptr<const Content> content_;
  std::size_t index_ = 0;
};

class CsvTable {
 public:
  /// Parses `text`; `origin` names it in messages. Lines end in LF or CRLF,
  /// blank ones are skipped. A row with fewer or more cells than the header is
  /// kept, with its `fault`. Throws `Error` with the line for stray or unclosed
  /// quotes, zero bytes, an empty or repeated column name, or no header at all.
  static CsvTable parse(std::string_view text, const std::string& origin);
  static CsvTable load(const std::string& path);

  std::span<const std::string> columns() const;
  bool has(std::string_view column) const;
  std::size_t size() const;  // rows, without the header
  CsvRow operator[](std::size_t index) const;

 private:
  std::shared_ptr<const CsvRow::Content> content_;
};

}  // namespace ztplan
