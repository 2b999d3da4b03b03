// Why a run died of memory: what the log says beside what the plan predicts.
// The log is read by interop/failure_log.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search/remedy.h"
#include "search/tensors.h"

namespace ztplan {

struct Diagnosis {
  std::string kind;         // "device_oom", "host_oom", "nccl", "none"
  std::string line;         // the one that told
  std::string explanation;  // what happened
  std::vector<std::string> advice;
  std::optional<Bytes> requested, allocated, capacity, unallocated, peak;
  std::vector<Tensor> matches;
  std::string phase;          // empty: not known
  std::string dominant_term;  // of the plan's peak; empty without a plan
  std::optional<Plan> plan;
  std::vector<Remedy> remedies;
};

}  // namespace ztplan
