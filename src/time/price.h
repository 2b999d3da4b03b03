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

Seconds price(const Work& work, const Machine& machine);

Seconds price(const Matmul& work, const Machine& machine);
Seconds price(const AttentionWork& work, const Machine& machine);
Seconds price(const Stream& work, const Machine& machine);
Seconds price(const Transfer& work, const Machine& machine);
Seconds price(const HostAdam& work, const Machine& machine);
Seconds price(const Collective& work, const Machine& machine);

}  // namespace ztplan
