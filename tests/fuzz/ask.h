// A question to a parser: bad input may end in `Error`, nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace ztplan {

template <class Question>
void ask(Question question) {
  try {
    question();
  } catch (const Error&) {  // refused: an answer too
  }
}

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace ztplan
