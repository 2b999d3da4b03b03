// Any bytes are a file of hardware/ or an `Error`; a machine can be laid out.
#include "fuzz/ask.h"
#include "spec/blueprint.h"
#include "spec/framework.h"
#include "spec/hardware_file.h"

namespace {

using namespace ztplan;

void read_all(const JsonView& file) {
  ask([&] { parse_device(file); });
  ask([&] { parse_network(file); });
  ask([&] {
    parse_framework(file, "fuzz");
    Calibration calibration;
    const DeviceSpec device{.architecture = "Hopper"};
    overlay_framework(calibration, device, file);
  });
  ask([&] {
    const Blueprint blueprint = make_blueprint(parse_machine(file));
    for (const int devices : {1, 8, 24, 1024, 1'000'000}) {
      ask([&] { validate(lay_out(blueprint, devices)); });
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  ask([&] { read_all(JsonView::parse(as_text(data, size), "fuzz")); });
  return 0;
}
