// Any bytes are a quantity or an `Error`; a quantity survives its exact text.
#include "base/quantity_text.h"
#include "fuzz/ask.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace ztplan;
  const std::string_view words = as_text(data, size);
  ask([&] {
    const Bytes bytes = parse_bytes(words);
    text(bytes);
    require(parse_bytes(exact_text(bytes)) == bytes, "bytes survive");
  });
  ask([&] {
    const BytesPerSecond rate = parse_rate(words);
    text(rate);
    require(parse_rate(exact_text(rate)) == rate, "a rate survives");
  });
  ask([&] { text(parse_flops_rate(words)); });
  ask([&] { text(parse_seconds(words)); });
  ask([&] { parse_count(words); });
  return 0;
}
