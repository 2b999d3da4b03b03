// Ctrl-C and SIGTERM as a wish: what is at hand is finished, then it ends.
#pragma once

#include <atomic>

namespace ztplan {

/// While it lives, a signal asks and a second Ctrl-C ends the process at once,
/// with 130. One at a time.
class StopsWhenAsked {
 public:
  StopsWhenAsked();
  ~StopsWhenAsked();
  StopsWhenAsked(const StopsWhenAsked&) = delete;
  StopsWhenAsked& operator=(const StopsWhenAsked&) = delete;

  const std::atomic<bool>& asked() const;

 private:
  void (*interrupt_)(int);
  void (*terminate_)(int);
};

}  // namespace ztplan
