// What was measured of one machine: how long probes took at the sizes they ran,
// and curves through them. Reads and writes a calibration file; never edits a
// spec. What no curve is of stays assumed.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/units.h"

namespace ztplan {

/// One probe at one size, repeated.
struct Sample {
  std::vector<double> sizes;  // what the time grows with; the first is a start
  Seconds low, median, high;  // four of five repeats lie between
  int repeats = 0;
  auto operator<=>(const Sample&) const = default;
};

/// Seconds of a probe: `coefficients` times sizes, a fit over all samples.
struct ProbeCurve {
  std::vector<double> coefficients;
  double spread = 0;  // four of five samples lie within 1 + spread of the curve
  std::vector<Sample> samples;  // by size
};

/// Between samples of one size beside the start their times are interpolated;
/// beyond the least and the largest the fit goes on from there. Where there are
/// several sizes the fit is corrected by the samples nearby. Requires as many
/// `sizes` as the curve has.
Seconds seconds_of(const ProbeCurve& curve, std::span<const double> sizes);

struct MeasuredMachine {
  std::string device;     // id in hardware/devices
  std::string processor;  // as the system names it
  int cores = 0;          // that ranks share
  std::string date;       // UTC, ISO 8601
  std::string version;    // of ztplan
  bool complete = false;  // every probe was run
  /// Time of a rank's work over the time alone, while so many ranks work at
  /// once: of one, of two, ...
  std::vector<double> sharing;
  std::map<std::string, ProbeCurve> curves;  // by probe: "product/fp32"

  /// What whole steps took over what the probes foretell, of one rank, of two,
  /// ...: learnt from `runs` executed ones (calibrate/refine.h).
  std::vector<double> step_factors;
  int runs = 0;
  double run_spread = 0;  // four of five lie within 1 + run_spread of that
};

/// Of `ranks` at once; past those measured it grows with them.
double sharing(const MeasuredMachine& machine, int ranks);
/// Of a step of `ranks`; past those that ran it is the last one's.
double step_factor(const MeasuredMachine& machine, int ranks);

/// Throws `Error` with the place: not a calibration, a newer schema, a number
/// that cannot be.
MeasuredMachine parse_measured(const JsonView& file);
MeasuredMachine read_measured(const std::string& path);
std::string to_json(const MeasuredMachine& machine);

}  // namespace ztplan
