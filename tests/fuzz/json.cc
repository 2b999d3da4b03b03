// Any bytes are JSON of ours or an `Error`; a value can be walked and asked
// for anything.
#include "base/json.h"

#include <string>

#include "fuzz/ask.h"

namespace {

using namespace ztplan;

void walk(const JsonView& value) {
  ask([&] { value.string(); });
  ask([&] { value.integer(); });
  ask([&] { value.small_integer(1, 8); });
  ask([&] { value.number(); });
  ask([&] { value.boolean(); });
  ask([&] { value.allow_only({"name", "source"}); });
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) walk(value[i]);
  }
  if (value.is_object()) {
    for (const std::string& key : value.keys()) walk(value.at(key));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  ask([&] { walk(JsonView::parse(as_text(data, size), "fuzz")); });
  return 0;
}
