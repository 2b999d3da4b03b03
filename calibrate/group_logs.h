// Collectives that others measured, of many groups of one kind of machine, as
// curves of it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "spec/measured.h"

namespace ztplan {

struct GroupRow {
  double bytes = 0;
  Seconds seconds;
};

/// One group's log.
struct GroupLog {
  std::string name;   // of the file
  std::string probe;  // "all_reduce/2x8"
  std::vector<GroupRow> rows;
};

/// The probes of the logs become curves of the machine, in the place of those
/// it had. Several logs of one size are one sample: their median, and what lies
/// between the fastest and the slowest.
void add_logs(MeasuredMachine& machine, std::span<const GroupLog> logs);

/// Logs that in most of their sizes take longer than 1.25 times the median of
/// at least three of their probe.
std::vector<GroupLog> slow_logs(std::span<const GroupLog> logs);

}  // namespace ztplan
