// The disk of a test fails or the process dies when it is told to: write(),
// fsync() and rename() of this program pass through here (CMakeLists.txt,
// --wrap) and are counted.
#pragma once

#include <functional>

namespace ztplan {

/// While it lives, the `nth` of these calls (from 0) and all after it fail
/// with `code` of errno; a negative `nth` never does.
class FaultyDisk {
 public:
  FaultyDisk(int nth, int code);
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;
  ~FaultyDisk();
  int calls() const;  // so far
};

/// Runs `work` in a child process that is gone, without a last word, before
/// its `nth` write, fsync or rename. True when it was.
bool dies_at(int nth, const std::function<void()>& work);

}  // namespace ztplan
