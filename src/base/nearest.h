// "Did you mean": the closest of a list of names.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ztplan {

/// The candidate that differs from `wrong` in its dashes alone, else one that
/// begins with it, else one close enough to be a slip (an edit distance of at
/// most a third of the letters), else one that `wrong` begins with; of several
/// the closest; empty for none. Case does not count.
std::string nearest_name(std::string_view wrong,
                         std::span<const std::string> candidates);

/// All of `values` that are closest to `wanted`: one below and one above,
/// as "4 or 8"; `wanted` alone when it is among them; empty for no values.
std::string nearest_values(long wanted, std::span<const long> values);

}  // namespace ztplan
