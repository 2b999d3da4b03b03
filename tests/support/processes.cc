#include "support/processes.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <sstream>
#include <string_view>

#include "support/run_command.h"

namespace ztplan {
namespace {

using nlohmann::json;

/// Open MPI's for root, for more ranks than cores, and against idle seconds
/// after a failure; MPI leaves memory that a sanitizer would mind.
constexpr std::string_view kEnvironment =
    "/usr/bin/env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_odls_base_sigkill_timeout=0 "
    "LSAN_OPTIONS=detect_leaks=0 ";

Run read_run(const CommandResult& result) {
  Run ran{result.exit_code, {}, {}, result.output, result.errors};
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) {
    const json value = json::parse(line, nullptr, false);
    if (value.is_discarded()) continue;  // a failure has several lines
    if (value.contains("step"))
      ran.steps.push_back(value);
    else
      ran.end = value;
  }
  return ran;
}

}  // namespace

Run run_line_in(const TemporaryDirectory& here, const std::string& line) {
  here.write("text.txt", small_text());
  return read_run(run_command(shell_words(line), here.path()));
}

bool can_start_processes() {
  const bool can = std::string_view(ZTPLAN_MPIRUN) != "";
  if (!can) MESSAGE("there is no MPI: ranks as processes are NOT tested");
  return can;
}

std::string small_text() {
  std::string all;
  for (int i = 0; i < 400; ++i)
    all += fmt::format("line {} of a small text, and no more;\n", i);
  return all;
}

std::string victim_line(const TemporaryDirectory& here,
                        const std::string& fault) {
  constexpr std::string_view kScript = R"(fault=$1; shift
"$@" & victim=$!
until ls saved/step-*/manifest.json >/dev/null 2>&1; do
  kill -0 $victim || break
  sleep 0.02
done
if [ $fault = FULL ]; then prlimit --pid $victim --fsize=20000
else kill -$fault $victim; fi
wait $victim
)";
  return fmt::format("/bin/sh {} {} ", here.write("victim.sh", kScript), fault);
}

std::string run_line(const std::string& words) {
  return std::string(ZTPLAN_BINARY) + " run --seq 32 --precision fp32 --json " +
         words;
}

Run run_threads(const TemporaryDirectory& here, const std::string& words) {
  return run_line_in(here, run_line(words));
}

Run run_victim(const TemporaryDirectory& here, const std::string& fault,
               const std::string& words) {
  return run_line_in(here, victim_line(here, fault) + run_line(words));
}

Run run_processes(const TemporaryDirectory& here, int ranks,
                  const std::string& words) {
  return run_mpirun(here, fmt::format("-n {} {}", ranks, run_line(words)));
}

Run run_mpirun(const TemporaryDirectory& here, const std::string& words) {
  return run_line_in(
      here, fmt::format("{}{} {}", kEnvironment, ZTPLAN_MPIRUN, words));
}

}  // namespace ztplan
