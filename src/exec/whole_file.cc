#include "exec/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/quote.h"
#include "exec/disk_failure.h"

namespace ztplan {
namespace {

constexpr mode_t kReadableByAll = 0644;

[[noreturn]] void refuse_to_write(const std::string& path, int code) {
  throw_disk_failure("cannot write " + quote(path), code);
}

}  // namespace

WholeFile::WholeFile(const std::string& path)
    : path_(path), unfinished_(path + kUnfinished) {
  descriptor_ =
      ::open(unfinished_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
             kReadableByAll);
  if (descriptor_ < 0) fail(errno);
}

WholeFile::~WholeFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(unfinished_.c_str());
}

void WholeFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail(errno);
    size_ += Bytes{put};
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void WholeFile::append(std::string_view text) {
  append(std::as_bytes(std::span(text)));
}

void WholeFile::finish() {
  if (::fsync(descriptor_) != 0) fail(errno);
  if (::rename(unfinished_.c_str(), path_.c_str()) != 0) fail(errno);
  ::close(descriptor_);
  descriptor_ = -1;
  const std::filesystem::path directory =
      std::filesystem::path(path_).parent_path();
  sync_directory(directory.empty() ? "." : directory.string());
}

void WholeFile::fail(int code) const { refuse_to_write(path_, code); }

void sync_directory(const std::string& path) {
  const int directory =
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) refuse_to_write(path, errno);
  const int code = ::fsync(directory) == 0 ? 0 : errno;
  ::close(directory);
  // EINVAL: a file system that cannot sync directories has nothing to lose.
  if (code != 0 && code != EINVAL) refuse_to_write(path, code);
}

}  // namespace ztplan
