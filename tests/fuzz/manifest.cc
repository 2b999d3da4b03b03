// Any bytes are a manifest or an `Error`; what is read writes itself back. The
// checksum is mended first: few inputs would get past it.
#include "exec/manifest.h"

#include <fmt/format.h>

#include "exec/crc32c.h"
#include "fuzz/ask.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace ztplan;
  ask([&] { parse_manifest(as_text(data, size), "fuzz"); });
  ask([&] {
    const std::string mended = fmt::format(
        "{{\"crc32c\": \"{:08x}\", \"manifest\":\n{}}}\n",
        crc32c(std::as_bytes(std::span(data, size))), as_text(data, size));
    const Manifest manifest = parse_manifest(mended, "fuzz");
    require(parse_manifest(to_text(manifest), "fuzz") == manifest,
            "a manifest comes back");
  });
  return 0;
}
