// Any bytes are a CSV table or an `Error`; what is read and written again is
// read the same.
#include "base/csv.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/table.h"

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Table table = as_table(CsvTable::parse(text, "fuzz"));
    if (table.columns.size() < 2) return 0;  // an empty cell is a blank line
    const Table again = as_table(CsvTable::parse(render_csv(table), "again"));
    require(table.rows == again.rows, "rows survive");
    render_text(table);
    render_markdown(table);
  } catch (const Error&) {  // not a table: an answer too
  }
  return 0;
}
