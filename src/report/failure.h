// How a failure is told: one line and what to do, or the same as JSON.
#pragma once

#include <string>

namespace ztplan {

struct Failure {
  std::string code;  // "bad_input": stable
  std::string message;
  std::string hint;  // may be empty
};

/// "error: message\n", and "hint: what to do\n" when there is one.
std::string to_text(const Failure& failure);
/// {"error": {"code", "message", "hint"}}
std::string to_json(const Failure& failure);

}  // namespace ztplan
