// From flags as typed to a question: numbers, lists and shares are read here,
// names by those who know them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/flags.h"
#include "search/request.h"

namespace ztplan {

/// Throws `Error` naming the flag, what was typed and what is expected.
Request request_of(const Flags& flags);

/// --engine, or the engine of --engine-version; empty when neither is given.
std::string engine_named(const Flags& flags);

/// A strategy's text in words that are the same for all engines:
/// "recompute=selective" alone is what `engine` means by it.
std::string meant_by(std::string_view engine, std::string_view strategy);

/// The strategy of --strategy, on --gpus when that is given; else `flags.gpus`
/// is set to the devices it uses, so that the machine is laid out for them.
Strategy strategy_of(Flags& flags);

/// Least and most that a number may be.
struct Range {
  double least = 0, most = 0;
};

/// A number or a percentage of `range`; `form` says what was expected. Throws
/// `Error`.
double parse_number(std::string_view flag, const std::string& typed,
                    const Range& range, const char* form);

/// "8": a whole number from 1 to `most`.
int parse_whole(std::string_view flag, const std::string& typed, int most);
/// "1,2,4", "0..3": whole numbers from `least` to `most`, each once.
std::vector<int> parse_list(std::string_view flag, const std::string& typed,
                            int least, int most);
/// "4M": one token or more.
double parse_tokens(std::string_view flag, const std::string& typed);
/// "2.5": USD, above 0 and finite.
double parse_price(const std::string& typed);
/// "3e-4": a number from `least` to `most`.
double parse_number(std::string_view flag, const std::string& typed,
                    double least, double most);
/// "5%" or "0.05": a share below 1.
double parse_share(std::string_view flag, const std::string& typed);

}  // namespace ztplan
