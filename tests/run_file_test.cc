#include "interop/run_file.h"

#include <doctest/doctest.h>

#include "support/messages.h"

using namespace ztplan;

namespace {

const std::string kEnd =
    R"({"schema":"ztplan.run/1","strategy":"tp=2,pp=1,dp=2",)"
    R"("calibration_date":"d","predicted":{"time":{"step_seconds":0.5}},)"
    R"("measured":{"time":{"step_seconds":0.6}}})";

}  // namespace

TEST_CASE("the last line of a run tells its ranks and its step") {
  const RunFile run =
      parse_run_file("{\"step\":1}\n" + kEnd + "\n\n", "run.json");
  CHECK(run.ranks == 4);
  CHECK(run.predicted.value == 0.5);
  CHECK(run.measured.value == 0.6);
  CHECK(run.calibration_date == "d");
}

TEST_CASE("what is not the end of a run is refused") {
  std::string none = kEnd;
  none.replace(none.find("0.6"), 3, "0.0");
  for (const std::string& text :
       {std::string(), std::string("{\"step\":1}"), std::string("[]"),
        kEnd.substr(0, 40), none}) {
    CAPTURE(text);
    CHECK(refusal([&] { parse_run_file(text, "run.json"); }).find("run.json") !=
          std::string::npos);
  }
}
