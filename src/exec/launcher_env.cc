#include "exec/launcher_env.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <string_view>

#include "base/error.h"

namespace ztplan {
namespace {

/// The names under which a launcher says what it says; empty: it does not.
struct Names {
  Launcher launcher;
  const char* text;
  const char *rank, *world, *local_rank, *local_world, *address, *port;
};

constexpr Names kLaunchers[] = {
    {Launcher::torchrun, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK",
     "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
    {Launcher::open_mpi, "Open MPI", "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "", ""},
    {Launcher::pmi, "PMI", "PMI_RANK", "PMI_SIZE", "", "", "", ""},
    {Launcher::slurm, "Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID", "", "SLURM_LAUNCH_NODE_IPADDR", ""},
};

constexpr int kPorts = 65536;

std::string value_of(const Environment& environment, const char* name) {
  const auto at = environment.find(name);
  return at == environment.end() ? "" : at->second;
}

/// A number from `least` on and below `end`; nothing where nothing is said.
std::optional<int> number(const Environment& environment, const char* name,
                          int least, int end) {
  const std::string text = value_of(environment, name);
  if (text.empty()) return std::nullopt;
  int value = 0;
  const char* const last = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc{} || stop != last)
    throw Error(fmt::format("{}='{}' is not a whole number", name, text));
  if (value < least || value >= end)
    throw Error(
        fmt::format("{}={} is not from {} to {}", name, value, least, end - 1));
  return value;
}

int needed(const Environment& environment, const Names& names, const char* name,
           int least, int end) {
  const auto value = number(environment, name, least, end);
  if (value) return *value;
  throw Error(
      fmt::format("{} says who this rank is, but not {}", names.text, name),
      fmt::format("set {}, or unset {} and {} to run alone", name, names.rank,
                  names.world));
}

/// A batch script of Slurm is told the rank 0, but of no step.
bool speaks(const Environment& environment, const Names& names) {
  const bool has_world = !value_of(environment, names.world).empty();
  if (names.launcher == Launcher::slurm) return has_world;
  return has_world || !value_of(environment, names.rank).empty();
}

void check_local(const LaunchedRank& found, const Names& names) {
  if (!found.local_world || !found.local_rank) return;
  if (*found.local_rank >= *found.local_world)
    throw Error(fmt::format("{}={} is not below {}={}", names.local_rank,
                            *found.local_rank, names.local_world,
                            *found.local_world));
}

LaunchedRank read_rank(const Environment& environment, const Names& names) {
  constexpr int kAny = std::numeric_limits<int>::max();
  LaunchedRank found;
  found.launcher = names.launcher;
  found.world = needed(environment, names, names.world, 1, kAny);
  found.rank = needed(environment, names, names.rank, 0, found.world);
  found.local_rank = number(environment, names.local_rank, 0, found.rank + 1);
  found.local_world =
      number(environment, names.local_world, 1, found.world + 1);
  found.address = value_of(environment, names.address);
  found.port = number(environment, names.port, 1, kPorts);
  check_local(found, names);
  return found;
}

}  // namespace

std::optional<LaunchedRank> find_launched_rank(const Environment& environment) {
  for (const Names& names : kLaunchers)
    if (speaks(environment, names)) return read_rank(environment, names);
  return std::nullopt;
}

}  // namespace ztplan
