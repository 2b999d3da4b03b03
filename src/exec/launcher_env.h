// Who this process is among those that a launcher started, read from the
// variables it sets.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace ztplan {

using Environment = std::map<std::string, std::string>;

enum class Launcher { torchrun, slurm, open_mpi, pmi };

struct LaunchedRank {
  Launcher launcher = Launcher::torchrun;
  int rank = 0, world = 1;
  std::optional<int> local_rank, local_world;  // on this node
  std::string address;      // where rank 0 listens; empty: not said
  std::optional<int> port;  // there
  auto operator<=>(const LaunchedRank&) const = default;
};

/// The nearest that speaks, of torchrun (RANK, WORLD_SIZE, ...: PyTorch,
/// torch/distributed/run.py, "Environment Variables"), Open MPI (mpirun(1),
/// "OMPI_COMM_WORLD_RANK"), PMI (Hydra's PMI_RANK, PMI_SIZE) and Slurm
/// (srun(1), "OUTPUT ENVIRONMENT VARIABLES"); nothing where none does. The
/// former three may have been started by a step of Slurm, and leave what it
/// says. Slurm speaks only of a step: a batch script by itself is one process.
/// Throws `Error` that names the variable when a launcher says half of it, or
/// what cannot be.
std::optional<LaunchedRank> find_launched_rank(const Environment& environment);

}  // namespace ztplan
