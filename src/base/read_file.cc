#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/quantity_text.h"
#include "base/quote.h"

namespace ztplan {
namespace {

constexpr std::size_t kChunk = 4 * kKiB;  // read past the expected end

/// An open file that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void refuse(const std::string& path, const std::string& why,
                         const char* hint) {
  throw Error(fmt::format("cannot read {}: {}", quote(path), why), hint);
}

[[noreturn]] void refuse_as_system_says(const std::string& path) {
  const int code = errno;
  refuse(path, std::generic_category().message(code),
         code == ENOENT ? "check the name and the working directory" : "");
}

void refuse_unless_regular(const std::string& path, const struct stat& about) {
  if (S_ISDIR(about.st_mode)) {
    refuse(path, "it is a directory", "name a file in it");
  }
  if (!S_ISREG(about.st_mode)) {
    refuse(path, "it is not a regular file", "copy its content into a file");
  }
}

[[noreturn]] void refuse_as_too_large(const std::string& path, Bytes limit) {
  refuse(path, fmt::format("it is larger than {}", text(limit)),
         "check that this is the right file");
}

std::string read_to_end(int file, const std::string& path, Bytes limit,
                        std::size_t expected) {
  std::string content;
  std::size_t chunk = expected;
  for (;; chunk = kChunk) {
    const std::size_t before = content.size();
    content.resize(before + chunk);
    const ssize_t got = ::read(file, content.data() + before, chunk);
    if (got < 0 && errno != EINTR) refuse_as_system_says(path);
    content.resize(before +
                   static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return content;
    if (std::cmp_greater(content.size(), limit.value)) {
      refuse_as_too_large(path, limit);
    }
  }
}

}  // namespace

std::string read_file(const std::string& path, Bytes limit) {
  if (path.find('\0') != std::string::npos) {
    refuse(path, "its name holds a zero byte", "");
  }
  // Without O_NONBLOCK, opening a FIFO would wait for its writer.
  const Descriptor file(
      ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  struct stat about {};
  if (file.number() < 0 || ::fstat(file.number(), &about) != 0) {
    refuse_as_system_says(path);
  }
  refuse_unless_regular(path, about);
  if (about.st_size > limit.value) refuse_as_too_large(path, limit);
  // One byte more than it should hold finds its end with the first read.
  return read_to_end(file.number(), path, limit,
                     static_cast<std::size_t>(about.st_size) + 1);
}

}  // namespace ztplan
