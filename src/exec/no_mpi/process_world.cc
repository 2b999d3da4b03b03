#include "exec/process_world.h"

#include "base/error.h"

namespace ztplan {

std::unique_ptr<ProcessWorld> open_process_world(const Vigil&) {
  throw Error(
      "ranks in several processes need MPI, with which this program was not "
      "built",
      "install libopenmpi-dev and build again, or start one process: ranks are "
      "threads then");
}

}  // namespace ztplan
