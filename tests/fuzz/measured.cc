// Any bytes are a calibration or an `Error`; what is read writes itself back.
#include "spec/measured.h"

#include "fuzz/ask.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace ztplan;
  ask([&] {
    const MeasuredMachine machine =
        parse_measured(JsonView::parse(as_text(data, size), "fuzz"));
    const std::string text = to_json(machine);
    require(to_json(parse_measured(JsonView::parse(text, "fuzz"))) == text,
            "a calibration comes back");
  });
  return 0;
}
