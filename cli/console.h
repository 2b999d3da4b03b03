// Where answers go: data to stdout, all else to stderr, files whole or not at
// all. What is written is report/'s.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "cli/flags.h"
#include "report/answer.h"

namespace ztplan {

/// How the answer to one command line is to be shown.
struct Console {
  Format format = Format::table;
  Style style;
  bool quiet = false;
  bool timing = false;
  std::chrono::steady_clock::time_point start;

  double seconds() const;   // since the command began
  Showing showing() const;  // with the seconds when --timing asks for them
};

/// Throws `Error` on an unknown format or color. Reads NO_COLOR and TERM.
Console make_console(const Flags& flags);

/// Before anything else: a closed stdin, stdout or stderr cannot become
/// another file, a closed pipe and a file too large are no signals, Ctrl-C
/// removes half a file and exits with 130; so do SIGTERM and SIGHUP, which then
/// end the process.
void prepare_process();

/// Writes all of `text` to stdout at once. A reader that has gone away is no
/// error; a full disk throws.
void print(std::string_view text);
/// To stderr, and nothing when it is closed.
void note(std::string_view text);

/// Throws `Error` when a file cannot be written: it exists and `overwrite` is
/// not asked, or it is no regular file. For asking before work is done.
enum class Overwrite { no, yes };
void check_target(const std::string& path, Overwrite overwrite);

/// Writes a file through a temporary one beside it, so that it is there whole
/// or not at all. A link is written through, permissions stay. Throws as
/// `check_target` does.
void write_whole(const std::string& path, Overwrite overwrite,
                 const std::function<void(std::ostream&)>& write);

/// A line on a terminal's stderr after half a second; silent anywhere else.
class ProgressLine {
 public:
  /// `noun`: what is counted, "strategies considered".
  ProgressLine(const Console& console, const char* noun);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(std::int64_t count);

 private:
  const char* noun_;
  bool enabled_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace ztplan
