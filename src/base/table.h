// A table of words, written as aligned text, Markdown or CSV. What stands in
// it is the caller's.
#pragma once

#include <string>
#include <vector>

namespace ztplan {

enum class Align { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
};

/// Requires of every row: as many cells as there are columns.
struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
};

/// Columns two spaces apart, as wide as their widest cell; nothing is cut and
/// no line ends in a space. Without titles there is no header line.
std::string render_text(const Table& table);
std::string render_markdown(const Table& table);
/// RFC 4180 with a header row; lines end in \n alone, as tools here expect.
std::string render_csv(const Table& table);

/// Characters of UTF-8 text, each taken to be one column wide.
std::size_t display_width(const std::string& text);

}  // namespace ztplan
