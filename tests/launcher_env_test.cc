#include "exec/launcher_env.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace ztplan;

TEST_CASE("a rank reads who it is from its launcher") {
  struct Row {
    Environment environment;
    LaunchedRank expected;
  };
  const Row rows[] = {
      {{{"RANK", "5"},
        {"WORLD_SIZE", "8"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "4"},
        {"MASTER_ADDR", "node0"},
        {"MASTER_PORT", "29500"}},
       {Launcher::torchrun, 5, 8, 1, 4, "node0", 29500}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "1"}},
       {Launcher::torchrun, 0, 1, {}, {}, "", {}}},
      {{{"SLURM_PROCID", "3"},
        {"SLURM_NTASKS", "8"},
        {"SLURM_STEP_NUM_TASKS", "4"},
        {"SLURM_LOCALID", "0"},
        {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}},
       {Launcher::slurm, 3, 4, 0, {}, "10.0.0.1", {}}},
      {{{"OMPI_COMM_WORLD_RANK", "2"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}},
       {Launcher::open_mpi, 2, 4, 2, 4, "", {}}},
      {{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}},
       {Launcher::pmi, 1, 2, {}, {}, "", {}}},
      // torchrun under Slurm: the nearer launcher speaks.
      {{{"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"SLURM_PROCID", "0"},
        {"SLURM_STEP_NUM_TASKS", "1"}},
       {Launcher::torchrun, 1, 2, {}, {}, "", {}}},
      // So does mpirun, whose daemons srun starts on other nodes, and Hydra.
      {{{"OMPI_COMM_WORLD_RANK", "3"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"SLURM_PROCID", "1"},
        {"SLURM_STEP_NUM_TASKS", "2"}},
       {Launcher::open_mpi, 3, 4, {}, {}, "", {}}},
      {{{"PMI_RANK", "2"},
        {"PMI_SIZE", "4"},
        {"SLURM_PROCID", "0"},
        {"SLURM_STEP_NUM_TASKS", "2"}},
       {Launcher::pmi, 2, 4, {}, {}, "", {}}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.expected.rank);
    const auto found = find_launched_rank(row.environment);
    REQUIRE(found);
    CHECK(*found == row.expected);
  }
}

TEST_CASE("a process that no launcher started is alone") {
  CHECK_FALSE(find_launched_rank({}));
  CHECK_FALSE(find_launched_rank({{"HOME", "/root"}, {"RANK", ""}}));
  CHECK_FALSE(find_launched_rank({{"SLURM_NTASKS", "8"}}));
  // What sbatch tells its script.
  CHECK_FALSE(find_launched_rank(
      {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}));
}

TEST_CASE("a launcher that says half, or what cannot be, is told so") {
  struct Row {
    Environment environment;
    const char* message;
  };
  const Row rows[] = {
      {{{"RANK", "0"}}, "torchrun says who this rank is, but not WORLD_SIZE"},
      {{{"WORLD_SIZE", "2"}}, "torchrun says who this rank is, but not RANK"},
      {{{"SLURM_STEP_NUM_TASKS", "2"}},
       "Slurm says who this rank is, but not SLURM_PROCID"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK=2 is not from 0 to 1"},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, "RANK=-1 is not from 0 to 1"},
      {{{"RANK", "one"}, {"WORLD_SIZE", "2"}},
       "RANK='one' is not a whole number"},
      {{{"RANK", "1x"}, {"WORLD_SIZE", "2"}},
       "RANK='1x' is not a whole number"},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "99999999999"}},
       "PMI_SIZE='99999999999' is not a whole number"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}},
       "LOCAL_RANK=1 is not from 0 to 0"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "3"}},
       "LOCAL_WORLD_SIZE=3 is not from 1 to 2"},
      {{{"RANK", "3"},
        {"WORLD_SIZE", "4"},
        {"LOCAL_RANK", "2"},
        {"LOCAL_WORLD_SIZE", "2"}},
       "LOCAL_RANK=2 is not below LOCAL_WORLD_SIZE=2"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}},
       "MASTER_PORT=70000 is not from 1 to 65535"},
  };
  for (const Row& row : rows)
    CHECK_THROWS_WITH_AS(find_launched_rank(row.environment), row.message,
                         Error);
}
