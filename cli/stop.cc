#include "cli/stop.h"

#include <csignal>
#include <cstdlib>

namespace ztplan {
namespace {

std::atomic<bool> stop_asked{false}, interrupted{false};

/// mpirun turns a Ctrl-C, which its ranks get as well, into a SIGTERM: two
/// signals that ask once.
extern "C" void ask_to_stop(int signal) {
  constexpr int kInterrupted = 130;
  stop_asked = true;
  if (signal == SIGINT && interrupted.exchange(true)) std::_Exit(kInterrupted);
}

}  // namespace

StopsWhenAsked::StopsWhenAsked()
    : interrupt_(std::signal(SIGINT, ask_to_stop)),
      terminate_(std::signal(SIGTERM, ask_to_stop)) {}

StopsWhenAsked::~StopsWhenAsked() {
  std::signal(SIGINT, interrupt_);
  std::signal(SIGTERM, terminate_);
}

const std::atomic<bool>& StopsWhenAsked::asked() const { return stop_asked; }

}  // namespace ztplan
