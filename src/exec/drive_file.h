// A file on a drive that stands for memory: written and read past the page
// cache where the file system can (O_DIRECT), every block checked by its CRC
// when it comes back. The file has no name: it goes with the
// process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ztplan {

/// What blocks and their buffers are multiples of: a logical block of NVMe.
inline constexpr std::int64_t kDriveAlignment = 4096;

class DriveFile {
 public:
  /// A new file of `size` bytes in the folder. Throws `Error` when it cannot be
  /// made there, `Mishap` when the drive has no room for it. Requires an
  /// aligned size.
  DriveFile(const std::string& folder, std::int64_t size);
  DriveFile(const DriveFile&) = delete;
  DriveFile& operator=(const DriveFile&) = delete;
  ~DriveFile();

  /// From and to memory that is aligned, as are place and size. Reading what
  /// is not as it was written, or was never, throws `Error`.
  void write(std::int64_t at, std::span<const std::byte> bytes);
  void read(std::int64_t at, std::span<std::byte> bytes) const;

  bool is_direct() const { return direct_; }

 private:
  void check(std::int64_t at, std::size_t size) const;
  [[noreturn]] void fail(const char* what, int code) const;

  std::string folder_;
  std::vector<std::int64_t> checksums_;  // by block; -1: never written
  int descriptor_ = -1;
  bool direct_ = false;
};

}  // namespace ztplan
