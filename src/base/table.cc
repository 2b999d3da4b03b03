#include "base/table.h"

#include <algorithm>

#include "base/error.h"

namespace ztplan {
namespace {

using Row = std::vector<std::string>;

constexpr std::size_t kGap = 2;  // spaces between columns

void require_whole_rows(const Table& table) {
  for (const Row& row : table.rows) {
    require(row.size() == table.columns.size(), "a table row has every column");
  }
}

Row titles(const Table& table) {
  Row row;
  for (const Column& column : table.columns) row.push_back(column.title);
  return row;
}

bool has_titles(const Table& table) {
  return std::ranges::any_of(table.columns,
                             [](const Column& c) { return !c.title.empty(); });
}

std::vector<std::size_t> widths(const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    std::size_t width = display_width(table.columns[i].title);
    for (const Row& row : table.rows) {
      width = std::max(width, display_width(row[i]));
    }
    widths.push_back(width);
  }
  return widths;
}

std::string text_line(const Row& row, const std::vector<Column>& columns,
                      const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i > 0) line.append(kGap, ' ');
    const std::string padding(widths[i] - display_width(row[i]), ' ');
    line +=
        columns[i].align == Align::right ? padding + row[i] : row[i] + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string markdown_cell(const std::string& cell) {
  std::string out;
  for (const char c : cell) {
    if (c == '|' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string markdown_line(const Row& row) {
  std::string line = "|";
  for (const std::string& cell : row) line += " " + markdown_cell(cell) + " |";
  return line + "\n";
}

std::string markdown_rule(const std::vector<Column>& columns) {
  std::string line = "|";
  for (const Column& column : columns) {
    line += column.align == Align::right ? " ---: |" : " --- |";
  }
  return line + "\n";
}

std::string csv_cell(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string out = "\"";
  for (const char c : cell) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

std::string csv_line(const Row& row) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    line += (i > 0 ? "," : "") + csv_cell(row[i]);
  }
  return line + "\n";
}

}  // namespace

std::size_t display_width(const std::string& text) {
  const auto starts_character = [](char c) { return (c & 0xC0) != 0x80; };
  return static_cast<std::size_t>(
      std::ranges::count_if(text, starts_character));
}

std::string render_text(const Table& table) {
  require_whole_rows(table);
  const std::vector<std::size_t> width = widths(table);
  std::string out;
  if (has_titles(table)) out += text_line(titles(table), table.columns, width);
  for (const Row& row : table.rows) out += text_line(row, table.columns, width);
  return out;
}

std::string render_markdown(const Table& table) {
  require_whole_rows(table);
  std::string out = markdown_line(titles(table)) + markdown_rule(table.columns);
  for (const Row& row : table.rows) out += markdown_line(row);
  return out;
}

std::string render_csv(const Table& table) {
  require_whole_rows(table);
  std::string out = csv_line(titles(table));
  for (const Row& row : table.rows) out += csv_line(row);
  return out;
}

}  // namespace ztplan
