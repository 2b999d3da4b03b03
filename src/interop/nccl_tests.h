// What NVIDIA/nccl-tests prints, as text or as JSON (-J), of all its versions:
// how long a collective took at each size, on which ranks.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "step/work.h"

namespace ztplan {

struct NcclRow {
  Bytes bytes;      // the large buffer, as NCCL counts
  Seconds seconds;  // out of place; in place where that alone was run
};

struct NcclLog {
  CollectiveOp op = CollectiveOp::all_reduce;
  int ranks = 0, nodes = 1;  // nodes: hosts that differ
  std::string hosts;         // "node1, node2"
  std::vector<NcclRow> rows;
};

/// Rows may follow a launcher's tag. Throws `Error` with the path, and the line
/// of a row whose bandwidth is not its size over its time: no log of
/// nccl-tests, one that is cut off, of an operation that no training has, of
/// ranks that it does not tell.
NcclLog read_nccl_tests(const std::string& path);
/// Of a file's text.
NcclLog parse_nccl_tests(const std::string& text, const std::string& path);

}  // namespace ztplan
