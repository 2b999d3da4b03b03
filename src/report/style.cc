#include "report/style.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/quote.h"

namespace ztplan {
namespace {

// Select graphic rendition codes, ECMA-48 8.3.117.
int code_of(Paint color) {
  switch (color) {
    case Paint::good:
      return 32;
    case Paint::warning:
      return 33;
    case Paint::bad:
      return 31;
    case Paint::faint:
      return 2;
    case Paint::strong:
      return 1;
    case Paint::plain:
      break;
  }
  return 0;
}

}  // namespace

std::string paint(const Style& style, Paint color, std::string_view text) {
  if (!style.color || color == Paint::plain) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code_of(color), text);
}

Format parse_format(std::string_view text) {
  if (text == "table") return Format::table;
  if (text == "json") return Format::json;
  if (text == "csv") return Format::csv;
  if (text == "md") return Format::md;
  throw Error(fmt::format("--format must be table, json, csv or md, not {}",
                          quote(text)));
}

}  // namespace ztplan
