// Any bytes are a table of measured runs, rows to skip or an `Error`.
#include <algorithm>

#include "fuzz/ask.h"
#include "fuzz/few_machines.h"
#include "interop/run_cells.h"
#include "interop/training_runs.h"
#include "spec/model_text.h"

namespace {

using namespace ztplan;

constexpr std::size_t kMostRows = 4;  // more only take time

void read_rows(const CsvTable& table) {
  static const std::vector<ModelSpec> known{
      parse_model_text("gpt:layers=12,hidden=768,heads=12")};
  check_columns(table);
  for (std::size_t i = 0; i < std::min(table.size(), kMostRows); ++i) {
    try {
      read_run(table[i], known);
    } catch (const Skip&) {  // cannot be predicted: an answer too
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  use_few_machines();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  ask([&] { read_rows(CsvTable::parse(as_text(data, size), "fuzz")); });
  return 0;
}
