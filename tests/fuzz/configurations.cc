// Any bytes are a configuration of each engine or an `Error`.
#include <string>

#include "fuzz/ask.h"
#include "interop/format.h"

using namespace ztplan;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string_view text = as_text(data, size);
  for (const FileFormat* format : formats())
    ask([&] { format->read("fuzz", text, {8, nullptr}); });
  return 0;
}
