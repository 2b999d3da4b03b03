// An engine without rules of its own: what any engine refuses is all it does.
#pragma once

#include "strategy/engine.h"

namespace ztplan {

inline const Engine& any_engine() {
  static const Engine engine = [] {
    Engine plain = find_engine("megatron");
    plain.name = "any";
    plain.rules = {};
    plain.vocab_multiple = 64;
    return plain;
  }();
  return engine;
}

}  // namespace ztplan
