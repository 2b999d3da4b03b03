// User's text inside our messages: one line, bounded, safe on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace ztplan {

/// `text` in double quotes, cut after 60 bytes; control characters, quotes and
/// bytes that are not UTF-8 appear as \n, \" or \x1b.
std::string quote(std::string_view text);

/// All of `text`, but control characters and bytes that are not UTF-8 as \x1b.
std::string printable(std::string_view text);

/// The first 60 bytes of plain text of our own, and "..." for the rest.
std::string shortened(std::string text);

/// `text` up to its first line's end.
std::string first_line(std::string_view text);

/// Length of the valid UTF-8 sequence `text` begins with; 0 when it does not.
std::size_t utf8_length(std::string_view text);

}  // namespace ztplan
