// The drawing of the house as rules: which file may include what.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ztplan {

struct Include {
  int line = 0;
  std::string target;   // "base/units.h", "nlohmann/json.hpp"
  bool system = false;  // <...>
};

/// Every #include of a source text, in order.
std::vector<Include> includes_of(std::string_view source);

/// What is wrong with the includes of the file at `path` (relative to the
/// repository) with this text: "src/spec/a.cc:3: spec must not include ...".
/// - src/: base < spec < strategy < step < time < search < report; a floor
///   includes itself and those below. interop stands beside report.
/// - exec and calibrate see nothing above step; kernels are under both.
/// - cli, bench and tests may include all of the house, nobody includes them.
/// - each dependency comes in by one door.
std::vector<std::string> broken_rules(const std::string& path,
                                      std::string_view source);

}  // namespace ztplan
