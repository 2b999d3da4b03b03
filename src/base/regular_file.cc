#include "base/regular_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "base/quote.h"

namespace ztplan {
namespace {

void refuse_unless_regular(const std::string& path, mode_t mode) {
  if (S_ISDIR(mode)) {
    refuse_to_read(path, "it is a directory", "name a file in it");
  }
  if (!S_ISREG(mode)) {
    refuse_to_read(path, "it is not a regular file",
                   "copy its content into a file");
  }
}

}  // namespace

RegularFile::RegularFile(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    refuse_to_read(path, "its name holds a zero byte", "");
  }
  // Without O_NONBLOCK, opening a FIFO would wait for its writer.
  descriptor_ =
      ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (descriptor_ < 0) refuse_as_system_says(path);
  try {
    struct stat about {};
    if (::fstat(descriptor_, &about) != 0) refuse_as_system_says(path);
    refuse_unless_regular(path, about.st_mode);
    size_ = Bytes{about.st_size};
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

RegularFile::~RegularFile() { ::close(descriptor_); }

void refuse_to_read(const std::string& path, const std::string& why,
                    const std::string& hint) {
  throw Error(fmt::format("cannot read {}: {}", quote(path), why), hint);
}

void refuse_as_system_says(const std::string& path) {
  const int code = errno;
  refuse_to_read(
      path, std::generic_category().message(code),
      code == ENOENT ? "check the name and the working directory" : "");
}

}  // namespace ztplan
