// How an answer is to look: its format, colors and detail.
#pragma once

#include <string>
#include <string_view>

namespace ztplan {

enum class Format { table, json, csv, md };

enum class Paint { plain, good, warning, bad, faint, strong };

struct Style {
  bool color = false;
  bool verbose = false;
};

/// `text` in ANSI colors when the style has them; color is never the only
/// sign of a meaning.
std::string paint(const Style& style, Paint color, std::string_view text);

/// Throws `Error` on a format there is not.
Format parse_format(std::string_view text);

}  // namespace ztplan
