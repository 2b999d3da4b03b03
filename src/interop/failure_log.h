// What a log or traceback says about running out of memory: PyTorch, NCCL,
// DeepSpeed, Megatron-LM, torchtitan, Slurm and the kernel's own words.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "strategy/ledger.h"

namespace ztplan {

enum class FailureKind { none, device_memory, host_memory, nccl };
std::string_view to_text(FailureKind kind);

struct FailureLog {
  FailureKind kind = FailureKind::none;
  std::string line;                // the one that told, shortened
  std::optional<Bytes> requested;  // of the last allocation
  Bytes rounding;                  // half of the last digit it was printed with
  std::optional<Bytes> capacity, free, allocated, unallocated;
  std::optional<Bytes> peak;   // the most that a line of the log reports
  std::optional<Phase> phase;  // by the frames of the traceback
  bool loading = false;        // while weights were read
  bool scores = false;         // in a softmax over scores
};

/// Reads any bytes; what is no such log has kind `none` and no peak.
FailureLog read_failure_log(std::string_view text);

}  // namespace ztplan
