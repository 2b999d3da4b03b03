#include "report/labelled.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/table.h"

namespace ztplan {
namespace {

// What may not be broken, with what must stand before it on the same line.
struct Word {
  std::string text;
  bool blank_before = false;
};

enum class Break { at_blanks, at_commas_too };

void add_pieces(std::vector<Word>& words, std::string_view word,
                std::size_t width) {
  bool blank = !words.empty();
  while (word.size() > width) {
    const std::size_t comma = word.find_last_of(',', width - 1);
    if (comma == std::string_view::npos) break;
    words.push_back({std::string(word.substr(0, comma + 1)), blank});
    word.remove_prefix(comma + 1);
    blank = false;
  }
  words.push_back({std::string(word), blank});
}

std::vector<Word> words_of(std::string_view text, std::size_t width,
                           Break where) {
  std::vector<Word> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (where == Break::at_commas_too && end > 0) {
      add_pieces(words, word, width);
    } else if (end > 0) {
      words.push_back({std::string(word), !words.empty()});
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

std::vector<std::string> lines_of(std::string_view text, std::size_t width,
                                  Break where) {
  std::vector<std::string> lines(1);
  for (const Word& word : words_of(text, width, where)) {
    std::string& line = lines.back();
    const std::string joined =
        (word.blank_before && !line.empty() ? " " : "") + word.text;
    if (!line.empty() && display_width(line) + display_width(joined) > width) {
      lines.push_back(word.text);
    } else {
      line += joined;
    }
  }
  return lines;
}

// Columns a terminal gives to a text with colors in it.
std::size_t visible_width(std::string_view text) {
  std::size_t width = display_width(std::string(text));
  for (std::size_t at = text.find('\x1b'); at != std::string_view::npos;
       at = text.find('\x1b', at + 1)) {
    width -= text.find('m', at) - at + 1;
  }
  return width;
}

std::string padded(const std::string& label) {
  const std::size_t width = visible_width(label);
  if (width >= kLabelWidth) return label + "  ";
  return label + std::string(kLabelWidth - width, ' ');
}

// A word cut after commas and dashes: a backslash at the end of a line, the
// rest in the first column.
std::string cut_word(const std::string& word, std::size_t width) {
  constexpr std::string_view kJoined = "\\\n";
  std::string out;
  std::string_view rest = word;
  while (rest.size() > width - kJoined.size()) {
    const std::size_t at = rest.find_last_of(",-", width - kJoined.size());
    if (at == std::string_view::npos) break;
    out += std::string(rest.substr(0, at + 1)) + std::string(kJoined);
    rest.remove_prefix(at + 1);
  }
  return out + std::string(rest);
}

std::string joined(const std::string& label,
                   const std::vector<std::string>& lines,
                   std::string_view between) {
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    out += fmt::format("{}{}{}\n", padded(i == 0 ? label : ""), lines[i],
                       i + 1 < lines.size() ? between : "");
  }
  return out;
}

std::string markdown_line(const Labelled& line) {
  const char* quote = line.kind == LineKind::command ? "`" : "";
  const std::string text = quote + line.text + quote;
  if (line.label.empty()) return fmt::format("- {}\n", text);
  return fmt::format("- {}: {}\n", line.label, text);
}

}  // namespace

std::string wrapped(std::string_view text) {
  std::string out;
  for (const std::string& line :
       lines_of(text, kScreenWidth, Break::at_commas_too)) {
    out += line + "\n";
  }
  return out;
}

std::string render_text(const Labelled& line) {
  const std::size_t width =
      kScreenWidth - std::max(kLabelWidth, visible_width(line.label) + 2);
  if (line.kind == LineKind::prose) {
    return joined(line.label, lines_of(line.text, width, Break::at_commas_too),
                  "");
  }
  constexpr std::string_view kContinued = " \\";
  std::vector<std::string> lines =
      lines_of(line.text, width - kContinued.size(), Break::at_blanks);
  for (std::string& shown : lines) shown = cut_word(shown, width);
  return joined(line.label, lines, kContinued);
}

std::string render_lines(const std::vector<Labelled>& lines, Format format) {
  std::string out;
  for (const Labelled& line : lines) {
    out += format == Format::md ? markdown_line(line) : render_text(line);
  }
  return out;
}

}  // namespace ztplan
