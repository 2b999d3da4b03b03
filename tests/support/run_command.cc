#include "support/run_command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "base/error.h"

namespace ztplan {
namespace {

constexpr int kNotStarted = 127;  // what a shell says then
constexpr int kSignalBase = 128;

struct Pipe {
  int read_end = -1, write_end = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  return {ends[0], ends[1]};
}

std::vector<char*> as_pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void become(std::vector<std::string> words, const char* directory,
                         const Pipe& output, const Pipe& errors) {
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output.write_end, STDOUT_FILENO);
  ::dup2(errors.write_end, STDERR_FILENO);
  ::setenv("NO_COLOR", "1", 1);
  ::unsetenv("ZTPLAN_DATA");
  if (::chdir(directory) == 0)
    ::execv(words[0].c_str(), as_pointers(words).data());
  ::_exit(kNotStarted);
}

/// Reads both ends to their close, whichever has something first, and tells
/// `heard` each time that it had.
template <class Heard>
void drain(int output, int errors, CommandResult& result, const Heard& heard) {
  std::array<pollfd, 2> ends{{{output, POLLIN, 0}, {errors, POLLIN, 0}}};
  const std::array<std::string*, 2> texts{&result.output, &result.errors};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    if (::poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      std::array<char, 65536> buffer;
      const ssize_t got = ::read(ends[i].fd, buffer.data(), buffer.size());
      if (got > 0)
        texts[i]->append(buffer.data(), static_cast<std::size_t>(got));
      if (got == 0) ends[i].fd = -1;
      heard();
    }
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFSIGNALED(status)) return kSignalBase + WTERMSIG(status);
  return WEXITSTATUS(status);
}

/// Reads one word from `rest`, which starts with no blank.
std::string take_word(std::string_view& rest) {
  constexpr std::string_view kShellOnly = "|&;<>()$`*?~#";
  std::string word;
  char quote = '\0';
  std::size_t i = 0;
  for (; i < rest.size(); ++i) {
    const char c = rest[i];
    if (quote == '\0' && (c == ' ' || c == '\t')) break;
    if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = '\0';
    } else if (c == '\\' && quote != '\'' && i + 1 < rest.size()) {
      word += rest[++i];
    } else if (quote == '\0' && kShellOnly.find(c) != std::string_view::npos) {
      throw Error(std::string("only a shell can run a command with ") + c);
    } else {
      word += c;
    }
  }
  if (quote != '\0') throw Error("a quote that never closes");
  rest.remove_prefix(i);
  return word;
}

/// `heard` is told the child and what it has said so far.
template <class Heard>
CommandResult run_hearing(const std::vector<std::string>& words,
                          const std::string& directory, const Heard& heard) {
  const Pipe output = make_pipe();
  const Pipe errors = make_pipe();
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) become(words, directory.c_str(), output, errors);
  ::close(output.write_end);
  ::close(errors.write_end);
  CommandResult result;
  drain(output.read_end, errors.read_end, result,
        [&] { heard(child, result); });
  ::close(output.read_end);
  ::close(errors.read_end);
  result.exit_code = wait_for(child);
  if (result.exit_code == kNotStarted) {
    throw std::runtime_error("cannot start " + words[0]);
  }
  return result;
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& words,
                          const std::string& directory) {
  return run_hearing(words, directory, [](pid_t, const CommandResult&) {});
}

CommandResult interrupt_command(const std::vector<std::string>& words,
                                const std::string& directory,
                                std::string_view said) {
  bool sent = false;
  return run_hearing(
      words, directory, [&](pid_t child, const CommandResult& so_far) {
        if (sent || so_far.output.find(said) == std::string::npos) return;
        sent = ::kill(child, SIGINT) == 0;
      });
}

std::vector<std::string> shell_words(std::string_view line) {
  std::vector<std::string> words;
  for (;;) {
    const std::size_t start = line.find_first_not_of(" \t");
    if (start == std::string_view::npos) return words;
    line.remove_prefix(start);
    words.push_back(take_word(line));
  }
}

}  // namespace ztplan
