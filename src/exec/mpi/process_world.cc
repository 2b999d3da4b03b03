#include "exec/process_world.h"

#include <mpi.h>

#include <optional>

#include "base/error.h"
#include "exec/mpi/process_communicator.h"

namespace ztplan {
namespace {

class MpiWorld final : public ProcessWorld {
 public:
  /// Lanes may be threads, each with calls of its own.
  explicit MpiWorld(const Vigil& vigil) {
    int given = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &given);
    if (given >= MPI_THREAD_MULTIPLE) {
      watch_.emplace(vigil);
      return;
    }
    MPI_Finalize();
    throw Error("this MPI does not serve several threads",
                "an MPI with MPI_THREAD_MULTIPLE, such as Debian's Open MPI");
  }
  ~MpiWorld() override {
    watch_.reset();
    MPI_Finalize();
  }

  int rank() const override { return watch_->rank(); }
  int size() const override { return watch_->size(); }
  std::unique_ptr<Communicator> join(Device& device) override {
    MPI_Comm own = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    return std::make_unique<ProcessCommunicator>(own, *watch_, device);
  }
  void end(int exit_code, const std::string& why) override {
    watch_->end(exit_code, why);
  }

 private:
  std::optional<Watch> watch_;
};

}  // namespace

std::unique_ptr<ProcessWorld> open_process_world(const Vigil& vigil) {
  return std::make_unique<MpiWorld>(vigil);
}

}  // namespace ztplan
