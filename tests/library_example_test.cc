#include <doctest/doctest.h>

#include <string>

#include "support/run_command.h"
#include "support/temporary_directory.h"

using namespace ztplan;

TEST_CASE("the program of examples/ prints a plan and its terms") {
  const TemporaryDirectory here;
  const CommandResult result = run_command({ZTPLAN_EXAMPLE}, here.path());
  CHECK(result.exit_code == 0);
  CHECK(result.output.starts_with("tp="));
  CHECK(result.output.find("peak ") != std::string::npos);
  CHECK(result.output.find("\nstep ") != std::string::npos);
}
