// Any bytes are a safetensors file or an `Error`; the views of a file that is
// one lie within it.
#include "exec/safetensors.h"

#include "fuzz/ask.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace ztplan;
  ask([&] {
    const auto file = std::as_bytes(std::span(data, size));
    const SafetensorsContent content = parse_safetensors(file, "fuzz");
    std::size_t total = 0;
    for (const auto& [name, tensor] : content.tensors) {
      total += tensor.bytes.size();
      if (tensor.bytes.empty()) continue;
      require(tensor.bytes.data() >= file.data() &&
                  tensor.bytes.data() + tensor.bytes.size() <=
                      file.data() + file.size(),
              "a view lies within its file");
    }
    require(total < file.size(), "tensors do not overlap");
  });
  return 0;
}
