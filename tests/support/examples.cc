#include "support/examples.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/quote.h"

namespace ztplan {
namespace {

constexpr std::string_view kPrompt = "$ ";
constexpr std::string_view kExit = "# exit ";
constexpr std::string_view kErrors = "# stderr\n";
constexpr std::string_view kAny = "...";
constexpr std::string_view kFence = "```console";
constexpr std::string_view kFenceEnd = "```";

using Lines = std::vector<std::string>;

Lines split_lines(std::string_view text) {
  Lines lines;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string join_lines(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

bool matches(const Lines& expected, std::size_t i, const Lines& actual,
             std::size_t j) {
  for (; i < expected.size(); ++i, ++j) {
    if (expected[i] == kAny) {
      for (std::size_t k = j; k <= actual.size(); ++k) {
        if (matches(expected, i + 1, actual, k)) return true;
      }
      return false;
    }
    if (j == actual.size() || expected[i] != actual[j]) return false;
  }
  return j == actual.size();
}

/// A document cut into commands with their output and all lines between.
struct Piece {
  bool is_command = false;
  int line = 0;
  std::string command;
  Lines written;  // of the command as it stands, or of anything else
  Lines output;   // of a command
};

std::string command_of(const Lines& written) {
  std::string command;
  for (std::size_t i = 0; i < written.size(); ++i) {
    std::string line = written[i];
    if (line.ends_with('\\')) line.pop_back();
    command += i == 0 ? line.substr(kPrompt.size()) : line;
  }
  return command;
}

bool goes_on(const Lines& written) { return written.back().ends_with('\\'); }

std::vector<Piece> pieces_of(std::string_view text) {
  std::vector<Piece> pieces{Piece{}};
  bool inside = false;
  int number = 0;
  for (const std::string& line : split_lines(text)) {
    ++number;
    Piece& last = pieces.back();
    if (inside && last.is_command && last.output.empty() &&
        goes_on(last.written)) {
      last.written.push_back(line);
    } else if (inside && line.starts_with(kFenceEnd)) {
      inside = false;
      pieces.push_back({false, number, "", {line}, {}});
    } else if (inside && line.starts_with(kPrompt)) {
      pieces.push_back({true, number, "", {line}, {}});
    } else if (inside && last.is_command) {
      last.output.push_back(line);
    } else {
      inside = inside || line == kFence;
      last.written.push_back(line);
    }
  }
  for (Piece& piece : pieces) {
    if (piece.is_command) piece.command = command_of(piece.written);
  }
  return pieces;
}

std::string shown(const CommandResult& result) {
  return result.output + result.errors;
}

}  // namespace

Example parse_golden(std::string_view text) {
  Lines lines = split_lines(text);
  if (lines.empty() || !lines[0].starts_with(kPrompt)) {
    throw Error("the first line of a golden file is \"$ COMMAND\"");
  }
  Example example{1, lines[0].substr(kPrompt.size()), 0, ""};
  std::ptrdiff_t head = 1;
  if (lines.size() > 1 && lines[1].starts_with(kExit)) {
    example.exit_code = std::stoi(lines[1].substr(kExit.size()));
    ++head;
  }
  lines.erase(lines.begin(), lines.begin() + head);
  example.expected = join_lines(lines);
  return example;
}

std::string render_streams(const CommandResult& result) {
  if (result.errors.empty()) return result.output;
  return result.output + std::string(kErrors) + result.errors;
}

std::string render_golden(const std::string& command,
                          const CommandResult& result) {
  std::string text = fmt::format("{}{}\n", kPrompt, command);
  if (result.exit_code != 0) {
    text += fmt::format("{}{}\n", kExit, result.exit_code);
  }
  return text + render_streams(result);
}

std::vector<Example> parse_document(std::string_view text) {
  std::vector<Example> examples;
  for (const Piece& piece : pieces_of(text)) {
    if (!piece.is_command) continue;
    words_to_run(piece.command, "ztplan");
    examples.push_back(
        {piece.line, piece.command, 0, join_lines(piece.output)});
  }
  return examples;
}

std::string update_document(std::string_view text,
                            const std::vector<CommandResult>& results) {
  std::string updated;
  std::size_t next = 0;
  for (const Piece& piece : pieces_of(text)) {
    updated += join_lines(piece.written);
    if (!piece.is_command) continue;
    const std::string actual = shown(results.at(next++));
    const std::string expected = join_lines(piece.output);
    updated += matches(expected, actual) ? expected : actual;
  }
  return updated;
}

bool matches(std::string_view expected, std::string_view actual) {
  return matches(split_lines(expected), 0, split_lines(actual), 0);
}

std::string difference(std::string_view expected, std::string_view actual) {
  const Lines a = split_lines(expected);
  const Lines b = split_lines(actual);
  // common[i][j]: lines that a from i on and b from j on have in common
  std::vector<std::vector<int>> common(a.size() + 1,
                                       std::vector<int>(b.size() + 1, 0));
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t j = b.size(); j-- > 0;) {
      common[i][j] = a[i] == b[j]
                         ? common[i + 1][j + 1] + 1
                         : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::string text;
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      text += "  " + a[i++] + "\n";
      ++j;
    } else if (j == b.size() ||
               (i < a.size() && common[i + 1][j] >= common[i][j + 1])) {
      text += "- " + a[i++] + "\n";
    } else {
      text += "+ " + b[j++] + "\n";
    }
  }
  return text;
}

std::vector<std::string> words_to_run(const std::string& command,
                                      const std::string& program) {
  std::vector<std::string> words = shell_words(command);
  const bool is_ours = !words.empty() &&
                       (words[0] == "ztplan" || words[0] == "./bootstrap") &&
                       (words.size() < 2 || words[1] != "test");
  if (!is_ours) {
    throw Error("a test cannot run " + quote(command),
                "use a ```sh block for what is not ztplan");
  }
  words[0] = program;
  return words;
}

}  // namespace ztplan
