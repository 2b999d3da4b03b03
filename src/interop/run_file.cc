#include "interop/run_file.h"

#include "base/error.h"
#include "base/json.h"
#include "strategy/strategy.h"

namespace ztplan {
namespace {

std::string_view last_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end + 1);
  const std::size_t start = text.rfind('\n');
  return start == std::string_view::npos ? text : text.substr(start + 1);
}

Seconds step_of(const JsonView& costs) {
  const JsonView seconds = costs.at("time").at("step_seconds");
  if (seconds.number() <= 0) seconds.fail("expected a time above 0");
  return {seconds.number()};
}

}  // namespace

RunFile read_run_file(const std::string& path) {
  constexpr Bytes kMost{64 * kMiB};
  return parse_run_file(read_file(path, kMost), path);
}

RunFile parse_run_file(std::string_view text, const std::string& path) {
  const JsonView end = JsonView::parse(last_line(text), path);
  if (!end.is_object() || !end.has("schema") ||
      end.at("schema").string() != "ztplan.run/1")
    end.fail("this is not what a run ended with",
             "ztplan run --json > FILE writes it");
  RunFile run;
  run.ranks = devices(parse_strategy(end.at("strategy").string(), 0));
  run.predicted = step_of(end.at("predicted"));
  run.measured = step_of(end.at("measured"));
  run.calibration_date = end.string_or("calibration_date", "");
  return run;
}

}  // namespace ztplan
