// Any bytes are a log.
#include "interop/failure_log.h"

#include "fuzz/ask.h"

using namespace ztplan;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  ask([&] { read_failure_log(as_text(data, size)); });
  return 0;
}
