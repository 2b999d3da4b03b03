// `run` as one of several processes that a launcher started: the same plan in
// all of them, one rank in each, and one answer, of rank 0.
#pragma once

#include "cli/command.h"
#include "exec/launcher_env.h"

namespace ztplan {

/// Input that is bad for one is bad for all: the lowest of them says why, and
/// all end with the exit code of its kind. Later, whoever fails says why, those
/// that still run say who failed, and all end. Throws what rank 0 has to say
/// where there is no world.
Exit run_processes(const Flags& flags, const Console& console,
                   const LaunchedRank& launched);

}  // namespace ztplan
