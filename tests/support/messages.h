// What an action says when it refuses: for tests of bad input.
#pragma once

#include <string>

#include "base/error.h"

namespace ztplan {

/// The message of the `Error` that `action` throws; empty when it throws none.
template <class Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// The hint that comes with it.
template <class Action>
std::string hint_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.hint();
  }
  return "";
}

}  // namespace ztplan
