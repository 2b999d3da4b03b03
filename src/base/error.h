// Three kinds of failure: the user's (`Error`, caught once in main), the
// machine's (`Mishap`) and ours (`require`, on in release builds: a wrong
// number is worse than a stop).
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace ztplan {

/// Bad input. `what()` says in one line what is wrong; `hint()` what to do.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::string hint = "")
      : std::runtime_error(message), hint_(std::move(hint)) {}
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};

/// What input is not to blame for: a disk is full, a rank does not come.
class Mishap : public Error {
 public:
  using Error::Error;
};

/// A broken promise of ztplan's own code.
class Bug : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws `Bug` when a promise of our own does not hold.
inline void require(bool holds, const char* promise) {
  if (!holds) throw Bug(promise);
}

}  // namespace ztplan
