// Any bytes are what nccl-tests or a run printed, or an `Error`.
#include "fuzz/ask.h"
#include "interop/nccl_tests.h"
#include "interop/run_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace ztplan;
  const std::string text(as_text(data, size));
  ask([&] { parse_nccl_tests(text, "all_reduce.log"); });
  ask([&] { parse_run_file(text, "fuzz"); });
  return 0;
}
