// What `calibrate` measured: a line for each probe.
#pragma once

#include <string>
#include <vector>

#include "report/answer.h"
#include "spec/measured.h"

namespace ztplan {

/// `path`: the file that holds it. JSON: schema ztplan.calibrate/1.
std::string render_calibration(const MeasuredMachine& machine,
                               const std::string& path, const Showing& showing);

/// What runs moved: step factors before and after.
std::string render_refinement(const MeasuredMachine& before,
                              const MeasuredMachine& after,
                              const std::string& path, const Showing& showing);

struct MovedProbe {
  std::string probe;
  Seconds before, now;
};
/// Probes that were measured again, and those that came out otherwise.
struct DriftAnswer {
  std::string path;
  int probes = 0;
  std::vector<MovedProbe> moved;
};
std::string render_drift(const DriftAnswer& answer, const Showing& showing);

}  // namespace ztplan
