#include "exec/drive_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/quote.h"
#include "exec/crc32c.h"
#include "exec/disk_failure.h"

namespace ztplan {
namespace {

/// A new file that is gone from its folder at once; -1 where `flags` are not
/// known to the file system.
int open_nameless(const std::string& folder, int flags) {
  std::string path = folder + "/ztplan-states-XXXXXX";
  const int descriptor = ::mkostemp(path.data(), flags | O_CLOEXEC);
  if (descriptor >= 0) ::unlink(path.c_str());
  return descriptor;
}

}  // namespace

DriveFile::DriveFile(const std::string& folder, std::int64_t size)
    : folder_(folder),
      checksums_(static_cast<std::size_t>(size / kDriveAlignment), -1),
      descriptor_(open_nameless(folder, O_DIRECT)),
      direct_(descriptor_ >= 0) {
  require(size % kDriveAlignment == 0, "the size of a drive file is aligned");
  if (!direct_) descriptor_ = open_nameless(folder, 0);
  if (descriptor_ < 0) fail("cannot make a file in", errno);
  if (size == 0) return;
  const int code = ::posix_fallocate(descriptor_, 0, size);
  if (code == 0) return;
  ::close(descriptor_);
  fail("no room for offloaded states in", code);
}

DriveFile::~DriveFile() { ::close(descriptor_); }

void DriveFile::fail(const char* what, int code) const {
  throw_disk_failure(fmt::format("{} {}", what, quote(folder_)), code);
}

void DriveFile::check(std::int64_t at, std::size_t size) const {
  const auto bytes = static_cast<std::int64_t>(size);
  require(at % kDriveAlignment == 0 && bytes % kDriveAlignment == 0 &&
              at + bytes <= std::ssize(checksums_) * kDriveAlignment,
          "aligned bytes of the drive file");
}

void DriveFile::write(std::int64_t at, std::span<const std::byte> bytes) {
  check(at, bytes.size());
  auto block = static_cast<std::size_t>(at / kDriveAlignment);
  for (std::size_t i = 0; i < bytes.size(); i += kDriveAlignment)
    checksums_[block++] = crc32c(bytes.subspan(i, kDriveAlignment));
  while (!bytes.empty()) {
    const ssize_t wrote = ::pwrite(descriptor_, bytes.data(), bytes.size(), at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) fail("cannot write offloaded states to", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
    at += wrote;
  }
}

void DriveFile::read(std::int64_t at, std::span<std::byte> bytes) const {
  check(at, bytes.size());
  const std::int64_t first = at / kDriveAlignment;
  std::span<std::byte> rest = bytes;
  while (!rest.empty()) {
    const ssize_t got = ::pread(descriptor_, rest.data(), rest.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("cannot read offloaded states from", errno);
    rest = rest.subspan(static_cast<std::size_t>(got));
    at += got;
  }
  auto block = static_cast<std::size_t>(first);
  for (std::size_t i = 0; i < bytes.size(); i += kDriveAlignment, ++block)
    if (checksums_[block] !=
        static_cast<std::int64_t>(crc32c(bytes.subspan(i, kDriveAlignment))))
      throw Error(fmt::format("block {} of the offloaded states in {} is not "
                              "as it was written",
                              block, quote(folder_)),
                  "check the drive; go on from a checkpoint");
}

}  // namespace ztplan
