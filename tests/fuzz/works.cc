// Any bytes are a table of measured works, rows to skip or an `Error`.
#include "fuzz/ask.h"
#include "fuzz/few_machines.h"
#include "interop/kernel_runs.h"

namespace {

using namespace ztplan;

constexpr std::size_t kMostRows = 8;  // more only take time

void predict_rows(const CsvTable& table) {
  if (table.size() > kMostRows) return;
  if (holds_products(table)) predict_products(table);
  if (holds_collectives(table)) predict_collectives(table);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  use_few_machines();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  ask([&] { predict_rows(CsvTable::parse(as_text(data, size), "fuzz")); });
  return 0;
}
