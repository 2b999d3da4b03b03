// Measures the processor as the executor uses it: its kernels, its ranks as
// threads, its files.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "spec/measured.h"
#include "step/work.h"

namespace ztplan {

struct CalibrationOptions {
  std::vector<Work> works;  // what is measured: calibrate/probes.h
  Seconds budget{60};  // shared by all probes; each repeats ten times at least
  std::string folder = ".";  // of the drive that stands for NVMe
  std::string device;        // id in hardware/devices
  std::string date, version;
};

/// Of the processor this runs on: "Intel(R) Xeon(R) Processor", its cores, and
/// the ranks at once that are measured.
std::string processor_name();
int processor_cores();
int most_ranks();

/// Measures all probes but those that `before` has of this processor. Ends
/// early, incomplete, when `*stop` is set. `report` hears how many of how many
/// are done. Throws `Error` where a probe is implausible or the folder cannot
/// be written.
MeasuredMachine calibrate(const CalibrationOptions& options,
                          const std::optional<MeasuredMachine>& before,
                          const std::atomic<bool>& stop,
                          const std::function<void(int, int)>& report);

/// One probe measured again.
struct Drift {
  std::string probe;
  Seconds before, now;  // medians at one size
  double allowed = 0;   // now lies within 1 + allowed of before where it holds
  bool holds() const;
};

/// Measures a middle size of every curve again that `options.works` have a work
/// for. Ends early where `*stop` is set. Throws `Error` for another processor.
std::vector<Drift> measure_drift(const MeasuredMachine& machine,
                                 const CalibrationOptions& options,
                                 const std::atomic<bool>& stop);

}  // namespace ztplan
