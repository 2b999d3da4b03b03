// A file as memory, read page by page when touched: tokens and weights larger
// than what one wants to load. Writing files is whole_file.h's.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ztplan {

class MappedFile {
 public:
  /// Throws `Error` when there is no such regular file or it is empty. Who
  /// shortens the file while it is mapped kills the process (SIGBUS).
  explicit MappedFile(const std::string& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace ztplan
