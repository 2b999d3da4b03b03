// "label    text": the lines of an answer, wrapped at 80 columns and indented
// under themselves, or as a Markdown list.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/style.h"

namespace ztplan {

constexpr std::size_t kScreenWidth = 80;  // of a piped terminal, as manuals use
constexpr std::size_t kLabelWidth = 10;

/// A command is broken at blanks, with a backslash to copy; a word too long for
/// a line goes on in the first column of the next, where a shell joins it.
enum class LineKind { prose, command };

struct Labelled {
  std::string label;  // may be painted
  std::string text;
  LineKind kind = LineKind::prose;
};

/// Prose without a label, from the first column.
std::string wrapped(std::string_view text);

/// Prose breaks at blanks, and after commas in a word too long for a line; a
/// word that has none stays whole.
std::string render_text(const Labelled& line);
std::string render_lines(const std::vector<Labelled>& lines, Format format);

}  // namespace ztplan
