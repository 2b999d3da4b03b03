// Any bytes are byte pairs or an `Error`; what is read writes itself back and
// encodes any text so that it comes back.
#include "exec/byte_pairs.h"

#include "fuzz/ask.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace ztplan;
  ask([&] {
    const std::string_view text = as_text(data, size);
    const BytePairs pairs = BytePairs::parse(text, "fuzz");
    require(BytePairs::parse(pairs.text(), "fuzz") == pairs, "comes back");
    require(pairs.decode(pairs.encode(text)) == text, "text comes back");
  });
  return 0;
}
