// A file that appears whole or not at all, also when the disk is full, the
// process is killed or the machine stops: written under another name, synced,
// renamed, and its directory synced.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/units.h"

namespace ztplan {

/// What the name of an unfinished file ends in.
inline constexpr char kUnfinished[] = ".unfinished";

class WholeFile {
 public:
  /// Begins "<path>.unfinished", replacing one of an earlier, killed process.
  /// Every call throws `Error` with the path and what the system says, a
  /// `Mishap` where the path is not to blame; what stood at `path` is then
  /// untouched.
  explicit WholeFile(const std::string& path);
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;
  /// Removes what was not finished.
  ~WholeFile();

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text);
  Bytes size() const { return size_; }  // appended so far
  /// The file is there, and stays there when the machine stops. Once.
  void finish();

 private:
  [[noreturn]] void fail(int code) const;

  std::string path_, unfinished_;
  int descriptor_ = -1;
  Bytes size_;
};

/// Makes entries that were created, renamed or removed in the directory stay.
/// Throws `Error`.
void sync_directory(const std::string& path);

}  // namespace ztplan
