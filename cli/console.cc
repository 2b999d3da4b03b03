#include "cli/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "base/error.h"
#include "base/quote.h"

namespace ztplan {
namespace {

using namespace std::chrono_literals;
constexpr auto kFirstProgress = 500ms;
constexpr auto kProgressPeriod = 100ms;
// Blanks, as not every terminal knows the sequence that erases a line.
constexpr char kEraseLine[] = "\r                                        \r";

// What a signal handler may touch: the half-written file, and whether a
// progress line stands on the terminal.
char temporary_path[PATH_MAX] = "";
volatile std::sig_atomic_t progress_shown = 0;

extern "C" void stop_on_signal(int signal) {
  if (temporary_path[0] != '\0') unlink(temporary_path);
  if (progress_shown != 0) {
    [[maybe_unused]] const auto written =
        write(STDERR_FILENO, kEraseLine, sizeof kEraseLine - 1);
  }
  constexpr int kInterrupted = 130;
  if (signal == SIGINT) _exit(kInterrupted);
  std::signal(signal, SIG_DFL);  // whoever waits sees what ended it
  std::raise(signal);
}

// What `nohup` ignores stays ignored.
void stop_unless_ignored(int signal) {
  if (std::signal(signal, stop_on_signal) == SIG_IGN)
    std::signal(signal, SIG_IGN);
}

void open_if_closed(int descriptor, int mode) {
  if (fcntl(descriptor, F_GETFD) != -1) return;
  // The lowest free descriptor is this one: they are checked in order.
  [[maybe_unused]] const int opened = open("/dev/null", mode);
}

[[noreturn]] void fail_system(const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

bool wants_color(const std::string& when) {
  if (when == "always") return true;
  if (when == "never") return false;
  if (!when.empty() && when != "auto") {
    throw Error(fmt::format("--color must be auto, always or never, not {}",
                            quote(when)));
  }
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool refused = no_color != nullptr && *no_color != '\0';
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  return !refused && !dumb && isatty(STDOUT_FILENO) != 0;
}

Format wanted_format(const Flags& flags) {
  if (flags.format.empty()) return flags.json ? Format::json : Format::table;
  const Format format = parse_format(flags.format);
  if (flags.json && format != Format::json) {
    throw Error(fmt::format("--json and --format {} contradict", flags.format),
                "give one of them");
  }
  return format;
}

// Where a symbolic link leads, so that the link survives, be there a file yet
// or not.
std::filesystem::path final_path(std::filesystem::path path) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::error_code none;
  for (int links = 0; std::filesystem::is_symlink(path, none); ++links) {
    if (links == kMostLinks)
      throw Error(fmt::format("{} is a loop of links", quote(path.string())));
    path = path.parent_path() / std::filesystem::read_symlink(path);
  }
  return path;
}

// Permissions of the file at `path`; of a new one when there is none.
mode_t mode_of(const std::filesystem::path& path) {
  struct stat status {};
  constexpr mode_t kPermissions = 07777;
  if (stat(path.c_str(), &status) == 0) return status.st_mode & kPermissions;
  const mode_t mask = umask(0);
  umask(mask);
  constexpr mode_t kReadWrite = 0666;
  return kReadWrite & ~mask;
}

// A new empty file beside `path`, removed unless it is kept.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& path)
      : path_((path.parent_path() / ".ztplan-XXXXXX").string()) {
    if (path_.size() >= PATH_MAX) throw Error("the file name is too long");
    const int descriptor = mkstemp(path_.data());
    if (descriptor < 0) {
      throw Error(fmt::format("cannot write {}: {}", quote(path.string()),
                              std::strerror(errno)));
    }
    std::copy_n(path_.c_str(), path_.size() + 1, temporary_path);
    fchmod(descriptor, mode_of(path));
    close(descriptor);
  }
  ~TemporaryFile() {
    unlink(path_.c_str());
    temporary_path[0] = '\0';
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

  void become(const std::string& path, Overwrite overwrite) const {
    // A hard link refuses a name that was taken meanwhile; rename does not.
    if (overwrite == Overwrite::no) {
      if (link(path_.c_str(), path.c_str()) == 0) return;
      if (errno == EEXIST) check_target(path, overwrite);
    }
    if (std::rename(path_.c_str(), path.c_str()) != 0) {
      fail_system("cannot write " + quote(path));
    }
  }

 private:
  std::string path_;
};

}  // namespace

double Console::seconds() const {
  const auto elapsed = std::chrono::steady_clock::now() - start;
  return std::chrono::duration<double>(elapsed).count();
}

Showing Console::showing() const {
  Showing showing{format, style, std::nullopt};
  if (timing) showing.seconds = seconds();
  return showing;
}

Console make_console(const Flags& flags) {
  Console console;
  console.start = std::chrono::steady_clock::now();
  console.format = wanted_format(flags);
  console.style.verbose = flags.verbose;
  console.style.color =
      wants_color(flags.color) && console.format == Format::table;
  console.quiet = flags.quiet;
  console.timing = flags.timing;
  return console;
}

void prepare_process() {
  open_if_closed(STDIN_FILENO, O_RDONLY);
  open_if_closed(STDOUT_FILENO, O_WRONLY);
  open_if_closed(STDERR_FILENO, O_WRONLY);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGINT, stop_on_signal);
  stop_unless_ignored(SIGTERM);
  stop_unless_ignored(SIGHUP);
}

void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE) return;
    if (written < 0) fail_system("cannot write the answer");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void note(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void check_target(const std::string& path, Overwrite overwrite) {
  if (path.empty() || path == "-") {
    throw Error("a file name is needed", "--json prints to stdout");
  }
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return;
  if (!S_ISREG(status.st_mode)) {
    throw Error(fmt::format("{} is not a regular file", quote(path)),
                "give another name");
  }
  if (overwrite == Overwrite::no) {
    throw Error(fmt::format("{} exists", quote(path)),
                "give another name, or --force to overwrite it");
  }
}

void write_whole(const std::string& path, Overwrite overwrite,
                 const std::function<void(std::ostream&)>& write) {
  check_target(path, overwrite);
  const std::string target = final_path(path).string();
  const TemporaryFile temporary(target);
  std::ofstream out(temporary.path(), std::ios::binary);
  write(out);
  out.close();
  if (!out) fail_system("cannot write " + quote(path));
  temporary.become(target, overwrite);
}

ProgressLine::ProgressLine(const Console& console, const char* noun)
    : noun_(noun),
      enabled_(!console.quiet && isatty(STDERR_FILENO) != 0),
      next_(console.start + kFirstProgress) {}

ProgressLine::~ProgressLine() {
  if (!shown_) return;
  note(kEraseLine);
  progress_shown = 0;
}

void ProgressLine::show(std::int64_t count) {
  if (!enabled_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kProgressPeriod;
  shown_ = true;
  progress_shown = 1;
  // Counts only grow, so that each line covers the one before.
  note(fmt::format("\r{} {}", count, noun_));
}

}  // namespace ztplan
