// What is remarkable in a configuration: keys an engine refuses, accepts and
// does not apply, or that cost something.
#pragma once

#include <string>
#include <string_view>

namespace ztplan {

/// What an engine makes of a key: it refuses it, accepts it and does something
/// else than it says, or it may cost memory or time.
enum class Severity { refused, trap, advice };
std::string_view to_text(Severity severity);

struct Finding {
  Severity severity = Severity::advice;
  std::string rule;    // stable name: "overlap-comm-ignored"
  std::string key;     // "zero_optimization.overlap_comm"
  std::string detail;  // what happens, with the values
  std::string remedy;  // what to write instead
  std::string source;  // repository and file, or repository#issue
};

}  // namespace ztplan
