// Any bytes are a CSV table or an `Error`; what is read and written again is
// read the same.
#include "base/csv.h"

#include <string>
#include <vector>

#include "base/table.h"
#include "fuzz/ask.h"

namespace {

using namespace ztplan;

Table as_table(const CsvTable& csv) {
  Table table;
  for (const std::string& column : csv.columns()) {
    table.columns.push_back({column, Align::left});
  }
  for (std::size_t i = 0; i < csv.size(); ++i) {
    std::vector<std::string> cells;
    for (const std::string& column : csv.columns()) {
      cells.push_back(csv[i].at(column));
    }
    table.rows.push_back(cells);
  }
  return table;
}

void read_twice(std::string_view text) {
  const Table table = as_table(CsvTable::parse(text, "fuzz"));
  render_text(table);
  render_markdown(table);
  if (table.columns.size() < 2) return;  // an empty cell is a blank line
  const Table again = as_table(CsvTable::parse(render_csv(table), "again"));
  require(table.rows == again.rows, "rows survive");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  ask([&] { read_twice(as_text(data, size)); });
  return 0;
}
