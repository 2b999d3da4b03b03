// Machines to price work on, written by hand from data sheets so that a test
// of prices does not depend on hardware/ nor on who reads it.
#pragma once

#include <string_view>

#include "spec/calibration.h"
#include "spec/cluster.h"
#include "time/price.h"

namespace ztplan {

struct PricedMachine {
  ClusterSpec cluster;
  Calibration calibration;
  Machine machine() const { return {cluster, calibration}; }
};

/// One node of "v100", "a100", "h100", "h200", "b200", "b300" (eight devices),
/// "gb200", "gb300" (four) or "l40s" (eight on PCIe 4), its constants as
/// published.
PricedMachine node_of(std::string_view gpu);

/// `nodes` of them, joined by NICs of this rate per device.
PricedMachine nodes_of(std::string_view gpu, int nodes, BytesPerSecond nic);

}  // namespace ztplan
