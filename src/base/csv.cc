#include "base/csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "base/units.h"

namespace ztplan {
namespace {

constexpr Bytes kLargestFile{64 * kMiB};  // some hundred thousand runs
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

struct Record {
  std::size_t line = 0;
  std::vector<std::string> cells;
};

/// Walks over the text, one record at a time.
class Scanner {
 public:
  Scanner(std::string_view text, const std::string& origin)
      : rest_(text), origin_(origin) {
    if (rest_.starts_with(kByteOrderMark)) {
      rest_.remove_prefix(kByteOrderMark.size());
    }
  }

  /// False at the end of the text.
  bool read(Record& record) {
    while (skip_line_end()) continue;
    if (rest_.empty()) return false;
    record = {line_, {}};
    do {
      record.cells.push_back(cell());
    } while (skip(","));
    if (!rest_.empty() && !skip_line_end()) {
      fail("expected a comma or the end of the line, found " +
           quote(rest_.substr(0, 1)));
    }
    return true;
  }

  [[noreturn]] void fail(const std::string& message) const {
    fail(line_, message);
  }
  [[noreturn]] void fail(std::size_t line, const std::string& message) const {
    throw Error(fmt::format("{}: line {}: {}", origin_, line, message));
  }

 private:
  bool skip(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  bool skip_line_end() {
    if (!skip("\r\n") && !skip("\n")) return false;
    ++line_;
    return true;
  }

  std::string cell() { return skip("\"") ? quoted_cell() : plain_cell(); }

  std::string plain_cell() {
    const std::size_t length =
        std::min(rest_.find_first_of(",\"\r\n"), rest_.size());
    std::string text(rest_.substr(0, length));
    rest_.remove_prefix(length);
    if (rest_.starts_with('"')) fail("a quote inside an unquoted cell");
    return text;
  }

  std::string quoted_cell() {
    std::string text;
    for (;;) {
      const std::size_t length = rest_.find('"');
      if (length == std::string_view::npos) fail("a quote that never closes");
      text += rest_.substr(0, length);
      rest_.remove_prefix(length + 1);
      if (!skip("\"")) break;
      text += '"';
    }
    line_ += static_cast<std::size_t>(std::ranges::count(text, '\n'));
    return text;
  }

  std::string_view rest_;
  const std::string& origin_;
  std::size_t line_ = 1;
};

void check_columns(const Record& header, const Scanner& scanner) {
  std::vector<std::string> sorted = header.cells;
  std::ranges::sort(sorted);
  if (sorted.front().empty())
    scanner.fail(header.line, "a column without a name");
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end())
    scanner.fail(header.line, "column " + quote(*twice) + " stands twice");
}

}  // namespace

struct CsvRow::Content {
  std::string origin;
  std::vector<std::string> columns;
  std::vector<Record> rows;

  std::size_t position(std::string_view column) const {
    return static_cast<std::size_t>(std::ranges::find(columns, column) -
                                    columns.begin());
  }
};

const std::string& CsvRow::at(std::string_view column) const {
  static const std::string lacks;
  const std::size_t position = content_->position(column);
  if (position < content_->columns.size()) {
    const std::vector<std::string>& cells = content_->rows[index_].cells;
    return position < cells.size() ? cells[position] : lacks;
  }
  const std::string near = nearest_name(column, content_->columns);
  throw Error(content_->origin + ": there is no column " + quote(column),
              near.empty() ? "" : "the nearest is " + quote(near));
}

std::string_view CsvRow::get(std::string_view column) const {
  if (content_->position(column) == content_->columns.size()) return "";
  return at(column);
}

std::size_t CsvRow::line() const { return content_->rows[index_].line; }

std::string CsvRow::fault() const {
  const std::size_t written = content_->rows[index_].cells.size();
  if (written == content_->columns.size()) return "";
  return fmt::format("{} {} where the header has {}", written,
                     written == 1 ? "cell" : "cells", content_->columns.size());
}

void CsvRow::fail(const std::string& message, std::string hint) const {
  throw Error(fmt::format("{}: line {}: {}", content_->origin, line(), message),
              std::move(hint));
}

CsvTable CsvTable::parse(std::string_view text, const std::string& origin) {
  auto content = std::make_shared<CsvRow::Content>();
  content->origin = origin;
  Scanner scanner(text, origin);
  if (text.find('\0') != std::string_view::npos) {
    throw Error(origin + ": it holds a zero byte, so it is no CSV text");
  }
  Record record;
  if (!scanner.read(record)) {
    throw Error(origin + ": it is empty", "its first line names the columns");
  }
  check_columns(record, scanner);
  content->columns = std::move(record.cells);
  while (scanner.read(record)) content->rows.push_back(std::move(record));
  CsvTable table;
  table.content_ = std::move(content);
  return table;
}

CsvTable CsvTable::load(const std::string& path) {
  return parse(read_file(path, kLargestFile), path);
}

std::span<const std::string> CsvTable::columns() const {
  return content_->columns;
}

bool CsvTable::has(std::string_view column) const {
  return content_->position(column) < content_->columns.size();
}

std::size_t CsvTable::size() const { return content_->rows.size(); }

CsvRow CsvTable::operator[](std::size_t index) const {
  require(index < size(), "a CSV row exists");
  CsvRow row;
  row.content_ = content_;
  row.index_ = index;
  return row;
}

}  // namespace ztplan
