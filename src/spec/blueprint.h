// A machine before it is laid out: what one node holds and how far each level
// can reach. hardware_file says what the files say, overrides change one fact,
// lay_out cuts the levels to a number of devices.
#pragma once

#include <cstddef>
#include <vector>

#include "spec/cluster.h"
#include "spec/hardware_file.h"

namespace ztplan {

struct Blueprint {
  /// Of a whole node: `devices` is 0 and fanouts are not set.
  ClusterSpec cluster;
  /// Devices joined by cluster.levels[0..i] at most, growing with i;
  /// kMostDevices: any number.
  std::vector<int> reach;
  bool devices_share_host = false;  // see MachineFile
  bool host_on_pcie = false;        // the host reaches devices over PCIe
};

/// The parts a machine names, fitted together. Throws `Error` when a name is
/// not known, or devices_per_node and the levels contradict each other.
Blueprint make_blueprint(const MachineFile& machine);

/// Puts `file` in the place of the machine's devices. PCIe links are no faster
/// than the device's own.
void place_device(Blueprint& blueprint, const DeviceFile& file);

/// Levels that join devices of one node or of a larger scale-up domain: those
/// before the first network.
std::size_t scale_up_levels(const Blueprint& blueprint);

/// Nodes of `devices` devices: the reach of their levels follows, NICs change
/// in proportion (at least one), the host stays as it is.
/// Requires devices >= 1.
void set_devices_per_node(Blueprint& blueprint, int devices);

/// Levels cut to `devices`: a part of a node, or whole nodes; equal groups as
/// large as the reach allows. Throws `Error` with the nearest numbers.
ClusterSpec lay_out(const Blueprint& blueprint, int devices);

}  // namespace ztplan
