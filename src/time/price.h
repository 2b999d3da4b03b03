// Work -> seconds on one machine. Products by tiles and waves, attention by
// length, passes by bytes, collectives as NCCL would choose them.
#pragma once

#include "base/units.h"
#include "spec/calibration.h"
#include "spec/cluster.h"
#include "step/work.h"

namespace ztplan {

struct Machine {
  const ClusterSpec& cluster;
  const Calibration& calibration;
};

/// As measured where the calibration has a curve of it, else as assumed.
Seconds price(const Work& work, const Machine& machine);

/// From data sheets and shares of them.
Seconds assumed_price(const Matmul& work, const Machine& machine);
Seconds assumed_price(const AttentionWork& work, const Machine& machine);
Seconds assumed_price(const Stream& work, const Machine& machine);
Seconds assumed_price(const Transfer& work, const Machine& machine);
Seconds assumed_price(const HostAdam& work, const Machine& machine);
Seconds assumed_price(const Collective& work, const Machine& machine);

}  // namespace ztplan
