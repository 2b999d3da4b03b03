// What `calibrate` measured: a line for each probe.
#pragma once

#include <string>

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

}  // namespace ztplan
