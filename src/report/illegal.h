// A strategy that breaks a rule where a plan was needed: an answer that ends a
// command, caught once in main.
#pragma once

#include <stdexcept>
#include <string>

#include "strategy/engine.h"

namespace ztplan {

class Illegal : public std::runtime_error {
 public:
  explicit Illegal(Misfit misfit)
      : std::runtime_error(misfit.detail), misfit_(std::move(misfit)) {}
  const Misfit& misfit() const { return misfit_; }

 private:
  Misfit misfit_;
};

std::string to_text(const Illegal& illegal);
/// {"error": {"code": "illegal", "message", "hint", "rule", "engine",
/// "source"}}
std::string to_json(const Illegal& illegal);

}  // namespace ztplan
