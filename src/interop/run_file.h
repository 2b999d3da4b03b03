// What `ztplan run --json` printed, read back.
#pragma once

#include <string>
#include <string_view>

#include "base/units.h"

namespace ztplan {

struct RunFile {
  int ranks = 1;
  Seconds predicted, measured;   // of a step
  std::string calibration_date;  // of what it was predicted with; or empty
};

/// The last line of a file of lines of JSON. Throws `Error` with the path where
/// it is not the end of a run that made a step.
RunFile read_run_file(const std::string& path);
/// Of a file's text.
RunFile parse_run_file(std::string_view text, const std::string& path);

}  // namespace ztplan
