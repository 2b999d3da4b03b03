// Reading one value of a strategy's text: words, whole numbers, pieces, and the
// error that names the key, the value and what is allowed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ztplan {

/// Throws `Error`: "zero must be a whole number from 0 to 3, not "4"".
[[noreturn]] void refuse(std::string_view key, std::string_view value,
                         std::string_view allowed);

/// The number, when `text` is nothing but a whole number in [low, high].
std::optional<int> integer_in(std::string_view text, int low, int high);
int parse_integer(std::string_view key, std::string_view text, int low,
                  int high);

std::string_view trimmed(std::string_view text);

/// The pieces between `separator`s; one empty piece of an empty text.
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace ztplan
