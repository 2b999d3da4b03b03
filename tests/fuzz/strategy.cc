// Any bytes are a strategy or an `Error`; a strategy survives its text.
#include "strategy/strategy.h"

#include "fuzz/ask.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace ztplan;
  constexpr int kGpus = 1024;
  const std::string_view text = as_text(data, size);
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
