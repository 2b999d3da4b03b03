// How ranks are started: a launch script for one of four launchers, and the
// README of what is emitted. Which program runs and with what is the format's.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "interop/format.h"

namespace ztplan {

/// How many processes there are, and on how many machines.
struct Ranks {
  int nodes, per_node;
};
Ranks ranks_of(const Emission& emission);

/// A program started once a rank, or once a node by torchrun.
struct Launch {
  /// Started once a node instead of torchrun, where the engine has a launcher
  /// of its own: "accelerate launch --config_file c.yaml". It is told the
  /// machines as accelerate is.
  std::string node_command = {};
  std::string program;  // "pretrain_gpt.py", or "-m torchtitan.train"
  std::vector<std::string>
      arguments;  // quoted for the shell where they need it
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::string prelude = {};  // lines of the script before it: ". args.sh"
  std::string note;  // what the user must have: "Megatron-LM at $MEGATRON"
};

/// What every format emits: its `configuration` files; launch.sh, and hostfile
/// where the launcher reads one; README.md: what was planned, for which engine
/// version, how to start it, what to expect (memory, step), what to check, and
/// what is `unsaid`.
Emitted with_launch(const Emission& emission, const Launch& launch,
                    std::vector<EmittedFile> configuration,
                    std::vector<std::string> unsaid);

}  // namespace ztplan
