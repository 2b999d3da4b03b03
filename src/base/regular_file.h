// A regular file open for reading: directories, pipes and devices are refused
// before anything waits for them. Reading it whole is json.h's `read_file`.
#pragma once

#include <string>

#include "base/units.h"

namespace ztplan {

/// Closes itself.
class RegularFile {
 public:
  /// Throws `Error` that names the file and says what to do.
  explicit RegularFile(const std::string& path);
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;
  ~RegularFile();

  int descriptor() const { return descriptor_; }
  Bytes size() const { return size_; }  // when it was opened

 private:
  int descriptor_ = -1;
  Bytes size_;
};

/// Throws `Error`: "cannot read <path>: <why>".
[[noreturn]] void refuse_to_read(const std::string& path,
                                 const std::string& why,
                                 const std::string& hint);
/// The same, with the system's reason: errno.
[[noreturn]] void refuse_as_system_says(const std::string& path);

}  // namespace ztplan
