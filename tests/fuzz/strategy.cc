// Any bytes are a strategy or an `Error`; a strategy survives its text.
#include "strategy/strategy.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace {

template <class Question>
void ask(Question question) {
  try {
    question();
  } catch (const ztplan::Error&) {  // not a strategy: an answer too
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace ztplan;
  constexpr int kGpus = 1024;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ask([&] { parse_strategy(text, kGpus); });
  ask([&] { parse_precision(text); });
  ask([&] { parse_offload(text); });
  ask([&] { parse_recompute(text); });
  ask([&] {
    const Strategy strategy = parse_strategy(text, 0);
    require(parse_strategy(to_text(strategy), 0) == strategy,
            "a strategy survives its text");
  });
  return 0;
}
