// ztplan calibrate: measures this machine, writes what every command takes with
// --calibration.
#include "calibrate/calibrate.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/error.h"
#include "base/quantity_text.h"
#include "base/quote.h"
#include "calibrate/group_logs.h"
#include "calibrate/probes.h"
#include "calibrate/refine.h"
#include "cli/command.h"
#include "cli/stop.h"
#include "interop/nccl_tests.h"
#include "interop/run_file.h"
#include "report/render_calibration.h"
#include "spec/catalog.h"
#include "step/demand.h"

namespace ztplan {
namespace {

constexpr std::size_t kMostFiles = 100'000;
constexpr const FlagGroup* kGroups[] = {&kCalibrateFlags, &kOutputFlags};

std::string now() {
  return fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)));
}

CalibrationOptions options_of(const Flags& flags) {
  constexpr Seconds kQuick{10}, kLongest{24.0 * 3600};
  if (!flags.device.empty() && flags.device != "cpu")
    throw Error(fmt::format("--device {} is not built in", quote(flags.device)),
                "cpu");
  CalibrationOptions options;
  options.works = probes(
      flags.quick ? Thoroughness::quick : Thoroughness::whole, most_ranks());
  if (flags.quick) options.budget = kQuick;
  if (!flags.budget.empty()) options.budget = parse_seconds(flags.budget);
  if (options.budget.value <= 0 || options.budget > kLongest)
    throw Error(fmt::format("--budget must be above 0s and up to a day, not {}",
                            quote(flags.budget)),
                "as 60s or 5min");
  options.folder = flags.offload_folder.empty()
                       ? std::filesystem::temp_directory_path().string()
                       : flags.offload_folder;
  options.device = load_cluster("", 1, {.gpu = "cpu"}).device.id;
  options.date = now();
  options.version = ZTPLAN_VERSION;
  return options;
}

std::optional<MeasuredMachine> before(const Flags& flags) {
  if (!flags.resume) return {};
  if (!std::filesystem::exists(flags.output))
    throw Error(fmt::format("there is no {} to resume", quote(flags.output)),
                "leave out --resume");
  return read_measured(flags.output);
}

/// A flag's own, and the words that follow.
std::vector<std::string> paths_of(const std::string& first,
                                  const Flags& flags) {
  std::vector<std::string> paths{first};
  paths.insert(paths.end(), flags.words.begin(), flags.words.end());
  return paths;
}

std::vector<ExecutedRun> runs_of(const Flags& flags,
                                 const MeasuredMachine& machine) {
  std::vector<ExecutedRun> runs;
  for (const std::string& path : paths_of(flags.from_runs, flags)) {
    const RunFile run = read_run_file(path);
    if (run.calibration_date != machine.date)
      throw Error(
          fmt::format("{} was not predicted with {}", path, flags.calibration),
          "run it again with that --calibration");
    runs.push_back({run.ranks, run.predicted, run.measured});
  }
  return runs;
}

Exit refine_calibration(const Flags& flags, Overwrite overwrite,
                        const Console& console) {
  if (flags.calibration.empty())
    throw Error("which calibration did the runs have?",
                "add --calibration FILE");
  const MeasuredMachine known = read_measured(flags.calibration);
  MeasuredMachine machine = refine(known, runs_of(flags, known));
  machine.date = now();
  write_whole(flags.output, overwrite,
              [&](std::ostream& out) { out << to_json(machine); });
  print(render_refinement(known, machine, flags.output, console.showing()));
  return Exit::yes;
}

/// What the logs are added to: a calibration of the device, or none yet.
MeasuredMachine machine_of_logs(const Flags& flags) {
  if (flags.gpu.empty())
    throw Error("which GPU are the logs of?", "add --gpu NAME");
  const std::string device = load_cluster("", 1, {.gpu = flags.gpu}).device.id;
  MeasuredMachine machine;
  if (!flags.calibration.empty()) {
    machine = read_measured(flags.calibration);
    if (machine.device != device)
      throw Error(fmt::format("{} is of {}, the logs of {}", flags.calibration,
                              machine.device, device),
                  "leave out --calibration");
  }
  machine.device = device;
  if (machine.processor.empty()) machine.processor = "nccl-tests";
  machine.cores = std::max(1, machine.cores);
  machine.date = now();
  machine.version = ZTPLAN_VERSION;
  return machine;
}

Exit import_nccl_tests(const Flags& flags, Overwrite overwrite,
                       const Console& console) {
  MeasuredMachine machine = machine_of_logs(flags);
  std::vector<GroupLog> logs;
  for (const std::string& path : paths_of(flags.nccl_tests, flags)) {
    const NcclLog log = read_nccl_tests(path);
    if (log.ranks % log.nodes != 0)
      throw Error(fmt::format("{}: {} ranks on {} nodes are not even", path,
                              log.ranks, log.nodes),
                  "run the test with as many ranks on each node");
    GroupLog group{
        path, collective_probe(log.op, log.nodes, log.ranks / log.nodes), {}};
    for (const NcclRow& row : log.rows)
      group.rows.push_back({static_cast<double>(row.bytes.value), row.seconds});
    logs.push_back(std::move(group));
  }
  add_logs(machine, logs);
  for (const GroupLog& slow : slow_logs(logs))
    note(fmt::format("slow: {} takes over 1.25 of the median of its like\n",
                     slow.name));
  write_whole(flags.output, overwrite,
              [&](std::ostream& out) { out << to_json(machine); });
  print(render_calibration(machine, flags.output, console.showing()));
  return Exit::yes;
}

/// It holds where nine of ten probes do.
Exit check_calibration(const Flags& flags, const Console& console) {
  constexpr double kMost = 0.1;  // of probes may have moved
  const MeasuredMachine machine = read_measured(flags.check_file);
  const StopsWhenAsked stops;
  const std::vector<Drift> drifts =
      measure_drift(machine, options_of(flags), stops.asked());
  if (stops.asked()) return Exit::interrupted;
  std::vector<MovedProbe> moved;
  for (const Drift& drift : drifts)
    if (!drift.holds()) moved.push_back({drift.probe, drift.before, drift.now});
  print(render_drift({flags.check_file, static_cast<int>(drifts.size()), moved},
                     console.showing()));
  const double share =
      static_cast<double>(moved.size()) /
      static_cast<double>(std::max<std::size_t>(1, drifts.size()));
  return share <= kMost ? Exit::yes : Exit::deviates;
}

Exit run_calibrate(const Flags& flags, const Console& console) {
  if (!flags.check_file.empty()) return check_calibration(flags, console);
  if (flags.output.empty())
    throw Error("where does the calibration go?",
                "add -o FILE, or --check FILE");
  const Overwrite overwrite =
      flags.force || flags.resume ? Overwrite::yes : Overwrite::no;
  check_target(flags.output, overwrite);
  if (!flags.nccl_tests.empty())
    return import_nccl_tests(flags, overwrite, console);
  if (!flags.from_runs.empty())
    return refine_calibration(flags, overwrite, console);
  if (!flags.words.empty())
    throw Error(
        fmt::format("calibrate does not take {}", quote(flags.words.front())),
        "--from-runs and --import-nccl-tests take files");
  const CalibrationOptions options = options_of(flags);
  const auto known = before(flags);
  const StopsWhenAsked stops;
  MeasuredMachine machine;
  {
    ProgressLine progress(console, "probes measured");
    machine = calibrate(options, known, stops.asked(),
                        [&](int done, int) { progress.show(done); });
  }
  write_whole(flags.output, overwrite,
              [&](std::ostream& out) { out << to_json(machine); });
  print(render_calibration(machine, flags.output, console.showing()));
  return machine.complete ? Exit::yes : Exit::interrupted;
}

}  // namespace

const Command kCalibrate{"calibrate",
                         "Measures this machine: what --calibration takes.",
                         "-o FILE | --check FILE [flags]",
                         {"ztplan calibrate -o machine.json",
                          "ztplan calibrate --check machine.json",
                          "ztplan calibrate --from-runs r/*.json --calibration "
                          "m.json -o refined.json"},
                         kGroups,
                         kMostFiles,
                         run_calibrate};

}  // namespace ztplan
