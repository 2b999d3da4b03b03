#include "spec/blueprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "spec/hardware_folder.h"

namespace ztplan {
namespace {

/// The less trusted of two; `Trust` is ordered best first.
Trust worse(Trust a, Trust b) { return std::max(a, b); }

std::string joined(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return a + b;
  return a + "; " + b;
}

MachineFile find_machine(std::string_view name) {
  for (const auto folder : {HardwareFolder::nodes, HardwareFolder::clusters}) {
    if (const auto file = find_hardware(folder, name)) {
      return parse_machine(*file);
    }
  }
  refuse_name("node or cluster", name,
              {HardwareFolder::nodes, HardwareFolder::clusters});
}

/// `machine` with what it leaves out taken from the one it is like.
MachineFile completed(MachineFile machine) {
  if (machine.like.empty()) return machine;
  MachineFile base = find_machine(machine.like);
  if (!base.like.empty()) {
    throw Error(fmt::format("{}: \"like\": {} is like {} itself", machine.id,
                            base.id, base.like),
                "name the node that describes everything");
  }
  if (machine.device.empty() && !machine.own_device) {
    machine.device = base.device;
    machine.own_device = base.own_device;
  }
  if (machine.devices_per_node == 0) {
    machine.devices_per_node = base.devices_per_node;
  }
  if (machine.levels.empty()) machine.levels = std::move(base.levels);
  if (!machine.host) machine.host = std::move(base.host);
  if (!machine.price_per_node_hour) {
    machine.price_per_node_hour = base.price_per_node_hour;
  }
  if (!machine.devices_share_host) {
    machine.devices_share_host = base.devices_share_host;
  }
  return machine;
}

/// Only processes of one host talk through its memory.
void check_link(const NetworkSpec& link, const LevelFile& level,
                const MachineFile& machine) {
  if (link.level.kind != LinkKind::memory ||
      machine.devices_share_host.value_or(false)) {
    return;
  }
  throw Error(
      fmt::format("{}: level {}: {} joins a host and its memory, not GPUs",
                  machine.id, level.name, link.id),
      "ztplan hardware lists links of GPUs (nvlink4, pcie5) and networks "
      "(ib-ndr)");
}

/// What the file says of a level, over what its link is.
Level make_level(const LevelFile& file, const MachineFile& machine) {
  Level level;
  level.trust = machine.trust;
  if (!file.link.empty()) {
    const NetworkSpec link = find_network(file.link);
    check_link(link, file, machine);
    level = link.level;
    level.trust = worse(level.trust, machine.trust);
  }
  const std::string& said = file.source.empty() ? machine.source : file.source;
  level.source = joined(said, level.source);
  level.name = file.name;
  if (file.kind) level.kind = *file.kind;
  if (file.nics_per_node > 0) {
    const BytesPerSecond nic = file.nic_rate.value_or(level.bandwidth);
    level.bandwidth = nic * file.nics_per_node / machine.devices_per_node;
  }
  if (file.bandwidth) level.bandwidth = *file.bandwidth;
  level.achieved = file.achieved.value_or(level.achieved);
  level.latency = file.latency.value_or(level.latency);
  level.in_network_reduction = file.in_network_reduction;
  level.nics_per_node = file.nics_per_node;
  level.trust = file.trust.value_or(level.trust);
  return level;
}

void add_host_link(const HostLinkFile& file, Blueprint& blueprint) {
  BytesPerSecond rate = file.rate;
  if (!file.link.empty()) {
    const Level link = find_network(file.link).level;
    rate = link.bandwidth;
    blueprint.host_on_pcie = link.kind == LinkKind::pcie;
  }
  blueprint.cluster.host.device_link = rate / file.shared_by;
}

HostSpec make_host(const HostFile& file) {
  HostSpec host;
  host.cores = file.cores;
  host.memory = file.memory;
  host.memory_bandwidth = file.memory_bandwidth;
  host.nvme = file.nvme.size;
  host.nvme_read = file.nvme.read;
  host.nvme_write = file.nvme.write;
  if (!file.nvme.drive.empty()) {
    const NetworkSpec drive = find_network(file.nvme.drive);
    host.nvme_read = drive.level.bandwidth * file.nvme.drives;
    host.nvme_write = drive.write_bandwidth * file.nvme.drives;
  }
  host.trust = file.rates_trust;
  host.source = joined(file.memory_bandwidth_source,
                       joined(file.nvme.source, file.device_link.source));
  return host;
}

void add_levels(const MachineFile& machine, Blueprint& blueprint) {
  std::int64_t reach = 1;
  for (const LevelFile& file : machine.levels) {
    blueprint.cluster.levels.push_back(make_level(file, machine));
    reach = file.fanout == 0 ? kMostDevices : reach * file.fanout;
    reach = std::min<std::int64_t>(reach, kMostDevices);
    blueprint.reach.push_back(static_cast<int>(reach));
  }
}

/// A node must be a whole number of groups of each inner level, and each outer
/// level a whole number of nodes.
void check_nodes(const Blueprint& blueprint) {
  const int node = blueprint.cluster.devices_per_node;
  if (node > kMostDevices) {
    throw Error(
        fmt::format("{}: {} devices a node", blueprint.cluster.name, node));
  }
  for (std::size_t i = 0; i < blueprint.reach.size(); ++i) {
    const int reach = blueprint.reach[i];
    const bool fits =
        reach == kMostDevices || reach % node == 0 || node % reach == 0;
    if (fits) continue;
    throw Error(
        fmt::format("{}: level {} joins {} devices, which does not go with "
                    "{} a node",
                    blueprint.cluster.name, blueprint.cluster.levels[i].name,
                    reach, node),
        "the product of fanouts must divide or be divided by "
        "devices_per_node");
  }
}

void slow_to(BytesPerSecond& rate, BytesPerSecond limit) {
  if (limit.value > 0) rate = std::min(rate, limit);
}

}  // namespace

Blueprint make_blueprint(const MachineFile& file) {
  const MachineFile machine = completed(file);
  Blueprint out;
  ClusterSpec& cluster = out.cluster;
  cluster.name = machine.id;
  cluster.aliases = machine.aliases;
  cluster.source = machine.source;
  cluster.trust = machine.trust;
  cluster.devices_per_node = machine.devices_per_node;
  cluster.host = make_host(*machine.host);
  add_host_link(machine.host->device_link, out);
  cluster.price_per_node_hour = machine.price_per_node_hour.value_or(0);
  out.devices_share_host = machine.devices_share_host.value_or(false);
  add_levels(machine, out);
  check_nodes(out);
  place_device(out, machine.own_device ? *machine.own_device
                                       : find_device(machine.device));
  return out;
}

void place_device(Blueprint& blueprint, const DeviceFile& file) {
  blueprint.cluster.device = file.device;
  for (Level& level : blueprint.cluster.levels) {
    if (level.kind == LinkKind::pcie) slow_to(level.bandwidth, file.pcie);
  }
  if (blueprint.host_on_pcie) {
    slow_to(blueprint.cluster.host.device_link, file.pcie);
  }
}

std::size_t scale_up_levels(const Blueprint& blueprint) {
  const std::vector<Level>& levels = blueprint.cluster.levels;
  const auto network = std::find_if(
      levels.begin(), levels.end(),
      [](const Level& level) { return level.kind == LinkKind::network; });
  return static_cast<std::size_t>(network - levels.begin());
}

}  // namespace ztplan
