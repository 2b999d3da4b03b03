// `ztplan run` on a small model and a text that can be learnt: ranks as threads
// of one process, or as processes that mpirun starts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/temporary_directory.h"

namespace ztplan {

/// Whether the program was built with MPI and there is an mpirun. Says so where
/// it is not, for what follows is then not tested.
bool can_start_processes();

/// Lines of JSON on standard output: steps, then the end.
struct Run {
  int exit_code = 0;
  std::vector<nlohmann::json> steps;
  nlohmann::json end;  // null where it did not come to it
  std::string output, errors;
};

inline const std::string kSmallGpt =
    "--model gpt:layers=2,hidden=32,heads=2,vocab=256 ";

/// A text that can be learnt.
std::string small_text();

/// In `here`, on sequences of 32 in fp32, with `words` for the rest; "text.txt"
/// is written.
Run run_threads(const TemporaryDirectory& here, const std::string& words);
Run run_processes(const TemporaryDirectory& here, int ranks,
                  const std::string& words);

/// Of words that are followed by a command: runs it, and once it has saved its
/// first checkpoint in "saved" does `fault` to it: "KILL", "STOP" and "TERM"
/// are signals, "FULL" lets no file grow beyond 20 kB.
std::string victim_line(const TemporaryDirectory& here,
                        const std::string& fault);

/// Threads, as its victim.
Run run_victim(const TemporaryDirectory& here, const std::string& fault,
               const std::string& words);

/// Any line of words, as `run_line` makes them.
Run run_line_in(const TemporaryDirectory& here, const std::string& line);

/// The command line of each, for those that mix them. `words` of mpirun end in
/// the program that each process is.
std::string run_line(const std::string& words);
Run run_mpirun(const TemporaryDirectory& here, const std::string& words);

}  // namespace ztplan
